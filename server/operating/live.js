// A run that goes on: each news is the whole page, written by the server; the parts that differ are put in place.

const AGAIN_MILLISECONDS = 1000;
const SILENCE_MILLISECONDS = 16000;
const WORDS = { connected: "live", away: "no news: the server is away; asking again" };
const main = document.querySelector("main");
const digest = (page) => page.querySelector('meta[name="page"]').content;
let tag = null;

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

// The page as it is now, or nothing where it is the one that is here. A page that nobody sees asks for nothing.
async function ask() {
  if (document.hidden) return document.addEventListener("visibilitychange", ask, { once: true });
  try {
    const headers = tag === null ? {} : { "If-None-Match": tag };
    const answer = await fetch("", { cache: "no-store", headers, signal: AbortSignal.timeout(SILENCE_MILLISECONDS) });
    if (answer.status === 200) {
      show(await answer.text());
      tag = answer.headers.get("ETag");
    } else if (answer.status !== 304) throw new Error("another answer");
    link("connected");
  } catch {
    link("away");
  }
  setTimeout(ask, AGAIN_MILLISECONDS);
}

ask();
