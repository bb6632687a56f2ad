// Tables, facts and bars. What comes from a run (names, sentences) becomes text and attributes, never markup.

import { el, part } from "./shared/dom.js";

/** A row whose first cell heads it; cells are texts, or texts with a class. */
export function rowOf(state, first, ...cells) {
  const attributes = state === null ? {} : { "data-state": state };
  return el("tr", attributes, el("th", { scope: "row" }, first), ...cells.map(cell));
}

/** A cell with a number. */
export function right(text) {
  return { text, class: "right" };
}

/** Facts with their names. */
export function facts(id, pairs) {
  part(id).replaceChildren(...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** A bar of parts, each a class and a share of 1; what it shows is said in words too. */
export function bar(track, parts, told) {
  track.setAttribute("aria-label", told);
  track.replaceChildren(
    ...parts.filter(([, share]) => share > 0).map(([name, share]) => {
      const piece = el("span", { class: name });
      piece.style.width = `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(3)}%`;
      return piece;
    }),
  );
}

function cell(given) {
  return typeof given === "string" ? el("td", {}, given) : el("td", { class: given.class }, given.text);
}
