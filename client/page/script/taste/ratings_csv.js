// Own ratings as the CSV file that `fedboard ratings` reads and writes: a header with `item` and `rating`. A cell that
// spreadsheets would run as a formula gets a quote in front.

const SHIELDED = /^'+[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/;

/** Write ratings, a map from item number to rating. */
export function writtenRatings(ratings, ids, titles) {
  const lines = [["item", "rating", "timestamp", "title"]];
  for (const [item, rating] of ratings) {
    lines.push([shielded(ids[item]), String(rating), "", shielded(titles?.[item] ?? "")]);
  }
  return lines.map((cells) => `${cells.map(quoted).join(",")}\n`).join("");
}

/**
 * Read ratings: items by id or full title, ratings on the range (null: presence alone).
 *
 * Gives `ratings` (a map from item number) and `left` (sentences about the lines that could not be used). Throws a
 * sentence where it is no such file.
 */
export function readRatings(text, ids, titles, range) {
  const [header = [], ...rows] = csvRows(text.replace(/^\ufeff/, ""));
  const names = header.map((cell) => cell.trim().toLowerCase());
  const [itemAt, ratingAt] = [names.indexOf("item"), names.indexOf("rating")];
  if (itemAt < 0 || (ratingAt < 0 && range !== null)) {
    throw new Error("the first line must name the columns item,rating");
  }
  const byName = namesOf(ids, titles);
  const [ratings, left] = [new Map(), []];
  rows.forEach((cells, n) => {
    if (cells.every((cell) => !cell.trim())) return;
    const item = byName((cells[itemAt] ?? "").trim());
    const rating = range === null ? 1 : Number(unshielded(cells[ratingAt]?.trim() ?? "") || NaN);
    if (item === undefined) left.push(`Line ${n + 2}: not on this board.`);
    else if (range !== null && !(rating >= range[0] && rating <= range[1])) {
      left.push(`Line ${n + 2}: a rating must be a number from ${range[0]} to ${range[1]}.`);
    } else ratings.set(item, rating);
  });
  return { ratings, left };
}

function namesOf(ids, titles) {
  const [byId, byTitle] = [new Map(ids.map((id, item) => [id, item])), new Map()];
  (titles ?? []).forEach((title, item) => {
    const name = plainTitle(title);
    byTitle.set(name, byTitle.has(name) ? undefined : item);
  });
  return (name) => byId.get(unshielded(name)) ?? byId.get(name) ?? byTitle.get(plainTitle(unshielded(name)));
}

function shielded(cell) {
  return SHIELDED.test(`'${cell}`) ? `'${cell}` : cell;
}

function unshielded(cell) {
  return SHIELDED.test(cell) ? cell.slice(1) : cell;
}

function plainTitle(title) {
  return title.toLowerCase().split(/\s+/).filter(Boolean).join(" ");
}

function quoted(cell) {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

function csvRows(text) {
  const rows = [[""]];
  for (let place = 0, inside = false; place < text.length; place++) {
    const row = rows.at(-1);
    const sign = text[place];
    if (inside && sign === '"' && text[place + 1] === '"') row[row.length - 1] += text[++place];
    else if (sign === '"') inside = !inside;
    else if (!inside && sign === ",") row.push("");
    else if (!inside && sign === "\n") rows.push([""]);
    else if (inside || sign !== "\r") row[row.length - 1] += sign;
  }
  return rows;
}
