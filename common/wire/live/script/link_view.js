// Whether news still come.

import { part } from "./shared/dom.js";

const LINKS = {
  connected: "live",
  away: "no news: the server is away; asking again",
  ended: "the process that served this page has ended; asking again",
};

/** Show it. */
export function showLink(state) {
  document.documentElement.dataset.link = state;
  part("link").dataset.link = state;
  part("link-words").textContent = LINKS[state];
}
