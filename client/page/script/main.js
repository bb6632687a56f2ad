// The board page: recommendations from a private board, made where they are read.

import { fromBase64, fromHex, toHex, utf8 } from "./board/bytes.js";
import { readBoard } from "./board/board_file.js";
import { unpacked } from "./board/packed.js";
import { modelOf } from "./models/registry.js";
import { isExplicit, setting } from "./models/settings.js";
import { isUsable, shortNumber } from "./seal/seal.js";
import { sha256 } from "./seal/sha2.js";
import { ownList } from "./taste/own_list.js";
import { titleSearch } from "./taste/search.js";
import { button, chip, el, part } from "./shared/dom.js";
import { finder } from "./view/finder.js";
import { showOdds } from "./view/odds_view.js";
import { ownRatings } from "./view/own_ratings.js";
import { recommendationList } from "./view/recommendations.js";
import { refuse, sealView } from "./view/seal_view.js";
import { makeTaste } from "./view/taste.js";

const SUGGESTED = 6;
const COMPARED = 10;
const TOAST_MILLISECONDS = 9000;

/** The boards that the page carries, or names: `label`, `form`, `size`, `file` or `address`, and what was signed. */
async function evidenceOf({ address, file, form, size, signed, earlier, oldest }, pins) {
  const transported = address === null ? fromBase64(file) : await fetched(address);
  const bytes = form === "packed" ? await unpacked(transported, size) : transported;
  // What the page itself holds it packed anew: its bytes on the way are the publisher's only where they were fetched.
  const came = signed !== null && address !== null ? transported : null;
  return { bytes, transported: came, signed, earlier, pins: oldest === null ? null : { ...pins, oldest } };
}

async function fetched(address) {
  const answer = await fetch(address, { credentials: "omit", referrerPolicy: "no-referrer", cache: "force-cache" });
  if (!answer.ok) throw new Error(`the mirror has no such board (${answer.status})`);
  return new Uint8Array(await answer.arrayBuffer());
}

/** A board that is ready to recommend. */
function prepared(evidence, entry) {
  const board = readBoard(evidence.bytes);
  const { config } = board.description;
  const range = isExplicit(config) ? [setting(config, "rating_low"), setting(config, "rating_high")] : null;
  return { ...entry, evidence, board, range, model: modelOf(board) };
}

async function start() {
  const data = JSON.parse(part("data").textContent);
  const [keys, witnesses] = [data.pins.keys, data.pins.witnesses].map((all) => all.map(fromHex));
  const pins = { ...data.pins, keys, witnesses };
  const evidence = await Promise.all(data.boards.map((entry) => evidenceOf(entry, pins)));
  const chosen = data.boards[data.chosen] === undefined ? 0 : data.chosen;
  let [at, built] = [0, false];
  const seal = sealView(
    () => evidence[at],
    (found) => {
      showOdds(found, evidence.length);
      part("app").hidden = !built || !isUsable(found);
    },
  );
  // Nothing is made of any board before all of them were checked.
  for (at of [...evidence.keys()].sort((one, other) => (one === chosen) - (other === chosen))) {
    if (!isUsable(await seal.check())) return;
  }

  const held = data.boards.map((entry, n) => prepared(evidence[n], entry));
  const [first] = held;
  const { ids, titles } = first.board;
  const titleOf = (item) => titles?.[item] ?? ids[item];
  const taste = makeTaste();
  const say = toasts();
  let current = held[chosen];

  const counts = current.board.arrays.item_counts?.values ?? new Float64Array(ids.length);
  const name = toHex(await sha256(utf8(JSON.stringify(ids))));
  const own = ownRatings({ taste, titleOf, board: first.board, range: first.range, name, say });
  const list = recommendationList({ titleOf, taste, pick: own.pick, say });
  finder(titleSearch(titles ?? ids, ids, counts), titleOf, own.pick);
  suggestions(counts, titleOf, taste, own.pick);
  function show() {
    const made = ownList(current.board, current.model, current.range, taste.ratings);
    list.show({ ...current, list: made });
    tellPrice(made);
  }

  /** How much of the list is there with the least noise too. */
  function tellPrice(made) {
    const least = held.at(-1);
    if (held.length < 2) return;
    const ranked = (list) => list.entries(COMPARED, taste.hidden).map(({ item }) => item);
    const other = ranked(least === current ? made : ownList(least.board, least.model, least.range, taste.ratings));
    const alike = ranked(made).filter((item) => other.includes(item)).length;
    const name = epsilonWords(least);
    part("compare-told").textContent =
      least === current
        ? "This is the board with the least noise here."
        : `${alike} of the first ${other.length} are also among the first ${other.length} at ${name}.`;
  }

  function use(n) {
    [at, current] = [n, held[n]];
    show();
  }

  const choose = (n) => {
    use(n);
    return seal.check();
  };

  compared(held, chosen, choose);
  taste.onChange(show);
  own.recall();
  countRequests();
  part("app").hidden = false;
  use(chosen);
  built = true;
  part("change").disabled = false;
  performance.mark("first-recommendation");
  globalThis.fedboard = Object.freeze({ held, taste, choose, seal });
}

function epsilonWords({ board }) {
  return `epsilon ${shortNumber(board.description.certificate?.claim?.epsilon)}`;
}

/** A slider over boards of several epsilon. */
function compared(held, chosen, choose) {
  part("compare").hidden = held.length < 2;
  const slider = part("epsilon");
  const words = (n) => epsilonWords(held[n]);
  slider.max = String(held.length - 1);
  slider.value = String(chosen);
  const tell = () => {
    slider.setAttribute("aria-valuetext", words(Number(slider.value)));
    part("epsilon-now").textContent = words(Number(slider.value));
  };
  part("epsilon-ticks").replaceChildren(...held.map((_, n) => el("span", {}, words(n).replace("epsilon ", ""))));
  slider.addEventListener("input", () => {
    tell();
    choose(Number(slider.value));
  });
  tell();
}

/** A few titles that many know, to begin with. */
function suggestions(counts, titleOf, taste, pick) {
  const known = [...counts.keys()].sort((one, other) => counts[other] - counts[one]);
  const show = () => {
    const left = known.filter((item) => !taste.ratings.has(item) && !taste.waiting.has(item)).slice(0, SUGGESTED);
    part("known").replaceChildren(...left.map((item) => chip(titleOf(item), () => pick(item))));
  };
  taste.onChange(show);
  show();
}

/** Count what the page asks of the network from now on, and show it: the browser keeps the record, not the page. */
function countRequests() {
  let count = 0;
  const show = () => document.querySelectorAll(".requests").forEach((place) => (place.textContent = String(count)));
  new PerformanceObserver((list) => {
    count += list.getEntries().filter(({ name }) => /^(https?|wss?):/.test(name)).length;
    show();
  }).observe({ type: "resource" });
  show();
  const network = () => {
    part("network").textContent = navigator.onLine ? "The network is on." : "The network is off, and nothing is missing.";
  };
  addEventListener("online", network);
  addEventListener("offline", network);
  network();
}

/** One message at a time, with what takes it back. */
function toasts() {
  let timer = null;
  return (sentence, word = null, back = null) => {
    const close = () => part("toast").replaceChildren();
    const undo = () => {
      close();
      back();
    };
    clearTimeout(timer);
    part("toast").replaceChildren(el("p", {}, sentence, back === null ? null : button(word, undo)));
    timer = setTimeout(close, TOAST_MILLISECONDS);
  };
}

start()
  .catch((error) => refuse(`${error.message}.`, "No board"))
  .then(() => {
    for (const place of ["wait", "stuck"]) part(place).remove();
    document.documentElement.dataset.ready = "";
  });
