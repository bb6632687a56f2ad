// The list, with the reason for each entry.

import { neighbours } from "../taste/ranking.js";
import { aside, button, el, part } from "../shared/dom.js";

const SHOWN_AT_FIRST = 10;
const NEIGHBOURS_SHOWN = 6;

/** Make the list; gives a function that shows what the board makes of the ratings. */
export function recommendationList({ titleOf, taste, board, range, pick, say }) {
  let shown = SHOWN_AT_FIRST;
  let current = null;
  part("more").addEventListener("click", () => {
    shown += SHOWN_AT_FIRST;
    show(current);
  });

  function show(list) {
    current = list;
    const entries = list.entries(shown, new Set([...taste.hidden, ...taste.waiting]));
    part("list").replaceChildren(...entries.map(row));
    part("more").hidden = entries.length < shown;
    part("list-told").textContent = taste.ratings.size
      ? `From ${counted(taste.ratings.size, range === null ? "title" : "rating")} of yours and this board, on this page.`
      : "Nothing of yours yet: this is what the board says to anybody. Rate a few titles.";
  }

  function row({ item, score, reason }) {
    const title = titleOf(item);
    const entry = el("li", { class: "entry", "data-item": item });
    const told = aside(range === null ? "score " : "predicted rating ");
    const [quiet, open] = [{ class: "quiet", more: `: ${title}` }, (event) => similar(event.currentTarget, entry, item)];
    entry.append(
      el(
        "div",
        { class: "entry-head" },
        el("span", { class: "entry-title" }, title),
        el("span", { class: "score" }, told, score.toFixed(2)),
      ),
      range === null ? "" : el("div", { class: "bar", "aria-hidden": "true" }, bar(score, range)),
      el("p", { class: "why" }, ...why(reason)),
      el(
        "div",
        { class: "actions" },
        button(range === null ? "I know it" : "Rate it", () => pick(item), quiet),
        button("Not for me", () => dismiss(item, title), quiet),
        button("Similar", open, { ...quiet, more: ` to ${title}`, "aria-expanded": "false" }),
      ),
    );
    return entry;
  }

  function why({ effect, net, item }) {
    if (!taste.ratings.size) return ["popular with everybody"];
    if (effect === "hardly-moved") return ["popular with everybody; your ratings hardly move it"];
    if (effect === "lowered") return [`popular with everybody; your ratings take ${(-net).toFixed(2)} off`];
    const liked = range === null || taste.ratings.get(item) >= (range[0] + range[1]) / 2;
    const most = ["because you ", liked ? "liked " : "did not like ", el("cite", {}, titleOf(item))];
    return [...most, `: your ratings add ${net.toFixed(2)}`];
  }

  function dismiss(item, title) {
    const rows = [...part("list").children];
    const place = rows.findIndex((entry) => entry.dataset.item === String(item));
    taste.hide(item);
    say(`${title} is out of your list.`, "Undo", () => taste.show(item));
    const next = part("list").children[Math.min(place, part("list").children.length - 1)];
    next?.querySelectorAll("button")[1]?.focus();
  }

  function similar(pressed, entry, item) {
    const open = entry.querySelector(".similar");
    pressed.setAttribute("aria-expanded", String(!open));
    if (open) {
      open.remove();
      return;
    }
    const { values, shape } = board.arrays.item_factors;
    const cosine = { class: "score", title: "Cosine: 1 is the same direction" };
    const rows = neighbours(values, shape[1], item, NEIGHBOURS_SHOWN).map((near) => {
      const link = button(titleOf(near.item), () => pick(near.item), { class: "link" });
      return el("li", {}, link, el("span", cosine, near.cosine.toFixed(2)));
    });
    entry.append(el("ul", { class: "similar" }, ...rows));
  }

  return { show };
}

/** "1 rating", "2 ratings". */
export function counted(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function bar(score, [low, high]) {
  const filled = el("span", {});
  filled.style.width = `${(100 * (score - low)) / (high - low)}%`;
  return filled;
}
