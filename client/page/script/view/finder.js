// The field in which titles are looked up: a combobox with a list, by keys and by pointer.

import { el, part } from "../shared/dom.js";

const MOST_SHOWN = 8;

/** Make the field work; `search` as in search.js, `titleOf` gives a text, `chosen` is told the item. */
export function finder(search, titleOf, chosen) {
  const [field, list, told] = [part("find"), part("found"), part("found-told")];
  let [items, active] = [[], -1];

  function show() {
    items = search(field.value, MOST_SHOWN);
    active = items.length ? 0 : -1;
    list.replaceChildren(
      ...items.map((item, n) => {
        const onpointerdown = (event) => event.preventDefault(); // the field keeps the focus
        return el("li", { id: `found-${n}`, role: "option", onpointerdown, onclick: () => take(n) }, titleOf(item));
      }),
    );
    const words = items.length ? `${items.length} found` : "Nothing of that name is on this board.";
    told.textContent = field.value.trim() === "" ? "" : words;
    mark();
  }

  function mark() {
    list.hidden = !items.length;
    field.setAttribute("aria-expanded", String(items.length > 0));
    [...list.children].forEach((entry, n) => entry.setAttribute("aria-selected", String(n === active)));
    if (active < 0) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", `found-${active}`);
    list.children[active]?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    [items, active] = [[], -1];
    list.replaceChildren();
    mark();
  }

  function take(n) {
    const item = items[n];
    field.value = "";
    told.textContent = "";
    close();
    chosen(item);
  }

  const keys = {
    ArrowDown: () => (active = (active + 1) % items.length),
    ArrowUp: () => (active = (active + items.length - 1) % items.length),
    Enter: () => take(active),
    Escape: close,
  };
  field.addEventListener("input", show);
  field.addEventListener("focus", show);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (!items.length || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
    if (items.length) mark();
  });
}
