// JSON as it was written: which stretch of the text is which member. What was hashed or signed is hashed again as the
// same characters and never written anew, since no two languages write all numbers alike.

/**
 * The members of a JSON object, each with the text of its value as it stands there.
 *
 * Throws where the text is no JSON object, or names a member twice: readers would differ in which one they take.
 */
export function rawMembers(text) {
  JSON.parse(text); // from here on it is known to be well formed
  const members = new Map();
  let place = afterSpace(text, 0);
  if (text[place] !== "{") throw new Error("not a JSON object");
  place = afterSpace(text, place + 1);
  while (text[place] !== "}") {
    const nameEnd = afterString(text, place);
    const name = JSON.parse(text.slice(place, nameEnd));
    const start = afterSpace(text, afterSpace(text, nameEnd) + 1); // behind the colon
    const end = afterValue(text, start);
    if (members.has(name)) throw new Error(`a member stands there twice: ${name}`);
    members.set(name, { key: text.slice(place, nameEnd), value: text.slice(start, end) });
    place = afterSpace(text, end);
    if (text[place] === ",") place = afterSpace(text, place + 1);
  }
  return members;
}

/** The same object without some members, each other one as it was written. */
export function without(members, names) {
  const kept = [...members].filter(([name]) => !names.includes(name));
  return `{${kept.map(([, { key, value }]) => `${key}:${value}`).join(",")}}`;
}

/** The same JSON with every character beyond printable ASCII escaped, as certificates are hashed. */
export function asciiOnly(text) {
  return text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function afterSpace(text, place) {
  while (" \t\n\r".includes(text[place] ?? "x")) place++;
  return place;
}

function afterString(text, place) {
  for (place++; text[place] !== '"'; place++) if (text[place] === "\\") place++;
  return place + 1;
}

function afterValue(text, place) {
  if (text[place] === '"') return afterString(text, place);
  if (text[place] !== "{" && text[place] !== "[") {
    while (!",}] \t\n\r".includes(text[place] ?? ",")) place++;
    return place;
  }
  for (let depth = 0; ;) {
    const sign = text[place];
    if (sign === '"') {
      place = afterString(text, place);
      continue;
    }
    if (sign === "{" || sign === "[") depth++;
    if (sign === "}" || sign === "]") depth--;
    place++;
    if (depth === 0) return place;
  }
}
