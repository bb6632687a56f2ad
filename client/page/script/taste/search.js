// Type-ahead over titles: accents and case do not matter, nor does the order of the words.

const SPELLED = { ß: "ss", ø: "o", ł: "l", æ: "ae" };

/** Words of a text as they are compared. */
export function searchWords(text) {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const spelled = Object.entries(SPELLED).reduce((text, [sign, letters]) => text.replaceAll(sign, letters), plain);
  return spelled.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/**
 * Look titles up.
 *
 * Gives a function of the text typed so far and how many are wanted: numbers of the items each of whose typed words
 * begins a word of the title, or the id. Titles that begin as typed come first, then by `weight` (how well known).
 */
export function titleSearch(titles, ids, weight) {
  const words = titles.map(searchWords);
  const starts = words.map((list) => ` ${list.join(" ")}`);
  return (typed, most) => {
    const wanted = searchWords(typed);
    if (!wanted.length) return [];
    const phrase = ` ${wanted.join(" ")}`;
    const found = [];
    starts.forEach((start, item) => {
      if (ids[item] !== typed.trim() && !wanted.every((word) => start.includes(` ${word}`))) return;
      const rank = ids[item] === typed.trim() ? 0 : start.startsWith(phrase) ? 1 : start.includes(phrase) ? 2 : 3;
      found.push({ item, rank });
    });
    found.sort((one, other) => one.rank - other.rank || weight[other.item] - weight[one.item] || one.item - other.item);
    return found.slice(0, most).map(({ item }) => item);
  };
}
