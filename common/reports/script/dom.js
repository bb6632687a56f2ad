// Elements. Titles, names and certificates come from others: they become text nodes and attributes, never markup.

const VIEW_PARTS = "http://www.w3.org/2000/svg";

/** An element with attributes (`on...` are listeners, null and false are left out) and children (text or elements). */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for drawings. */
export function svgEl(name, attributes = {}, ...children) {
  return filled(document.createElementNS(VIEW_PARTS, name), attributes, children);
}

/** What a page has under an id. */
export function part(id) {
  return document.getElementById(id);
}

/** A word for assistive technology alone. */
export function aside(text) {
  return el("span", { class: "unseen" }, text);
}

/** A button; `more` is said by assistive technology alone, behind its words. */
export function button(words, onclick, { more = null, ...attributes } = {}) {
  return el("button", { type: "button", onclick, ...attributes }, words, more === null ? null : aside(more));
}

/** A list entry whose one button takes a title. */
export function chip(words, onclick) {
  return el("li", {}, button(words, onclick, { class: "chip" }));
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
