// The person's own ratings: rated, waiting for a rating, and dismissed; kept, written, read and erased as she says.

import { readRatings, writtenRatings } from "../taste/ratings_csv.js";
import { button, el, part } from "../shared/dom.js";
import { counted } from "./recommendations.js";
import { starInput } from "./stars.js";

const MOST_BYTES = 1 << 24;

/** Make the list of own ratings work. `name` is what they are kept under in this browser, if the person asks for it. */
export function ownRatings({ taste, titleOf, board, range, name, say }) {
  const rows = new Map();

  function show() {
    const wanted = [...taste.waiting, ...[...taste.ratings.keys()].reverse()];
    for (const [item, row] of rows) {
      if (!wanted.includes(item)) {
        row.remove();
        rows.delete(item);
      }
    }
    for (const item of wanted) if (!rows.has(item)) rows.set(item, ratingRow(item));
    const list = part("own");
    // Rows that stay keep their place and their focus: new ones come first.
    const added = wanted.filter((item) => rows.get(item).parentNode !== list);
    for (const item of added.reverse()) list.prepend(rows.get(item));
    part("own-none").hidden = wanted.length > 0;
    part("own-count").textContent = taste.ratings.size ? `(${taste.ratings.size})` : "";
    showHidden();
  }

  function ratingRow(item) {
    const title = titleOf(item);
    const given = taste.ratings.get(item) ?? null;
    const input = range === null ? null : starInput(title, range, given, (rating) => taste.rate(item, rating));
    const remove = button("×", () => removed(item, title), { class: "quiet remove", more: `Remove ${title}` });
    return el("li", { "data-item": item }, el("span", { class: "own-title" }, title), input, remove);
  }

  function removed(item, title) {
    const rating = taste.ratings.get(item);
    taste.remove(item);
    say(`${title} is no longer among your ratings.`, "Undo", () =>
      rating === undefined ? taste.wait(item) : taste.rate(item, rating),
    );
    part("find").focus();
  }

  function showHidden() {
    part("hidden-part").hidden = !taste.hidden.size;
    part("hidden-list").replaceChildren(
      ...[...taste.hidden].map((item) => {
        const back = { class: "quiet", more: `: ${titleOf(item)}` };
        return el("li", {}, el("span", {}, titleOf(item)), button("Back in the list", () => taste.show(item), back));
      }),
    );
  }

  /** Add a title to be rated, and go to its stars. */
  function pick(item) {
    if (range === null) taste.rate(item, 1);
    else taste.wait(item);
    const row = rows.get(item);
    row?.scrollIntoView({ block: "nearest" });
    (row?.querySelector("input:checked") ?? row?.querySelector("input, button"))?.focus();
  }

  const keep = part("keep");

  /** What the browser keeps, changed by `work`; some keep nothing for pages like this one, or not so much. */
  function kept(work) {
    try {
      return work(localStorage);
    } catch {
      if (keep.checked) say("This browser does not keep this for pages like this one. Export your ratings instead.");
      keep.checked = false;
      return null;
    }
  }

  function keepAll() {
    if (!keep.checked) return;
    const ratings = [...taste.ratings].map(([item, rating]) => [board.ids[item], rating]);
    const hidden = [...taste.hidden].map((item) => board.ids[item]);
    kept((store) => store.setItem(name, JSON.stringify({ ratings, hidden })));
  }

  function forget() {
    keep.checked = false;
    kept((store) => store.removeItem(name));
  }

  function recall() {
    const held = kept((store) => JSON.parse(store.getItem(name)));
    if (held === null) return;
    keep.checked = true;
    const numbers = new Map(board.ids.map((id, item) => [id, item]));
    taste.replace({
      ratings: held.ratings.map(([id, rating]) => [numbers.get(id), rating]).filter(([item]) => item !== undefined),
      hidden: held.hidden.map((id) => numbers.get(id)).filter((item) => item !== undefined),
    });
  }

  async function imported(event) {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    try {
      if (file.size > MOST_BYTES) throw new Error("that file is too large for a list of ratings");
      const { ratings, left } = readRatings(await file.text(), board.ids, board.titles, range);
      taste.add(ratings);
      const unused = left.length ? ` ${counted(left.length, "line")} could not be used. ${left[0]}` : "";
      say(`${counted(ratings.size, "rating")} imported.${unused}`);
    } catch (error) {
      say(`Not imported: ${error.message}.`);
    }
  }

  function exported() {
    const text = writtenRatings(taste.ratings, board.ids, board.titles);
    const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    el("a", { href: address, download: "my-ratings.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  function erased() {
    const held = { ratings: [...taste.ratings], hidden: [...taste.hidden] };
    forget();
    taste.replace({ ratings: [], hidden: [] });
    say("Everything of yours is erased, here and in this browser.", "Undo", () => taste.replace(held));
  }

  taste.onChange(show);
  taste.onChange(keepAll);
  keep.addEventListener("change", () => (keep.checked ? keepAll() : forget()));
  part("import").addEventListener("change", imported);
  part("export").addEventListener("click", exported);
  part("erase").addEventListener("click", erased);
  show();
  return { pick, recall };
}
