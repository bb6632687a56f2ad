// A run that goes on: each news is the whole page, written by the server; the parts that differ are put in place.

const AGAIN_MILLISECONDS = 1000;
const SILENCE_MILLISECONDS = 16000;
const WORDS = {
  connected: "live",
  away: "no news: the server is away; asking again",
  ended: "the process that served this page has ended; asking again",
};
const main = document.querySelector("main");
const digest = (page) => page.querySelector('meta[name="page"]').content;
let [source, heard, ended] = [null, 0, false];

function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (digest(fresh) !== digest(document)) return location.reload();
  document.title = fresh.title;
  const parts = [...fresh.querySelector("main").children];
  const staying = new Set(parts.map((part) => part.id));
  for (const old of [...main.children].filter((part) => !staying.has(part.id))) old.remove();
  let place = main.firstElementChild;
  for (const part of parts) {
    const old = document.getElementById(part.id);
    if (old === null) main.insertBefore(part, place);
    else place = (keepLook(old, part), old.isEqualNode(part) ? old : replaced(old, part)).nextElementSibling;
  }
  document.documentElement.dataset.state = fresh.documentElement.dataset.state;
}

// What the reader has opened stays open.
function keepLook(old, part) {
  for (const open of old.querySelectorAll("figure > details[open]"))
    part.querySelector(`#${open.parentElement.id} > details`)?.setAttribute("open", "");
}

// Where the reader has scrolled to, and what has their keyboard, stays too.
function replaced(old, part) {
  const scrolled = [...old.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  const held = [...old.querySelectorAll("[tabindex], a, summary")].indexOf(document.activeElement);
  old.replaceWith(part);
  part.querySelectorAll(".scroll").forEach((box, k) => ([box.scrollLeft, box.scrollTop] = scrolled[k] ?? [0, 0]));
  if (held >= 0) part.querySelectorAll("[tabindex], a, summary")[held]?.focus({ preventScroll: true });
  return part;
}

function link(state) {
  document.documentElement.dataset.link = state;
  document.getElementById("link-words").textContent = WORDS[state];
}

function listen() {
  source?.close();
  heard = Date.now();
  source = new EventSource("events");
  source.onopen = () => ([heard, ended] = [Date.now(), false]);
  source.addEventListener("page", (event) => (show(JSON.parse(event.data)), (heard = Date.now()), link("connected")));
  source.addEventListener("beat", () => ((heard = Date.now()), link("connected")));
  source.addEventListener("end", () => (ended = true));
  source.onerror = () => link(ended ? "ended" : "away");
}

// The browser asks again by itself, but not after an answer that is none, nor where the line is dead and open.
setInterval(() => {
  if (document.hidden) return;
  if (source.readyState !== EventSource.CLOSED && Date.now() - heard <= SILENCE_MILLISECONDS) return;
  link(ended ? "ended" : "away");
  listen();
}, AGAIN_MILLISECONDS);
// A page that nobody sees asks for nothing, so that nothing is written for it.
document.addEventListener("visibilitychange", () => (document.hidden ? source.close() : listen()));
listen();
