// The board page: recommendations from a private board, made where they are read.

import { fromBase64, fromHex, toHex, unpacked, utf8 } from "./board/bytes.js";
import { readBoard } from "./board/board_file.js";
import { modelOf } from "./models/registry.js";
import { isExplicit, setting } from "./models/settings.js";
import { isUsable } from "./seal/seal.js";
import { sha256 } from "./seal/sha2.js";
import { ownList } from "./taste/own_list.js";
import { titleSearch } from "./taste/search.js";
import { button, chip, el, part } from "./shared/dom.js";
import { finder } from "./view/finder.js";
import { showOdds } from "./view/odds_view.js";
import { ownRatings } from "./view/own_ratings.js";
import { recommendationList } from "./view/recommendations.js";
import { refuse, shownSeal } from "./view/seal_view.js";
import { makeTaste } from "./view/taste.js";

const SUGGESTED = 6;
const TOAST_MILLISECONDS = 9000;

/** The board that the page carries, `size` bytes when it is unpacked, and what was signed. */
async function evidenceOf({ file, size, signed, earlier, oldest }, pins) {
  const bytes = await unpacked(fromBase64(file), size);
  return { bytes, signed, earlier, pins: oldest === null ? null : { ...pins, oldest } };
}

async function start() {
  const data = JSON.parse(part("data").textContent);
  const [keys, witnesses] = [data.pins.keys, data.pins.witnesses].map((all) => all.map(fromHex));
  const evidence = await evidenceOf(data.board, { ...data.pins, keys, witnesses });
  // Nothing is made of the board before it was checked.
  const seal = await shownSeal(evidence);
  showOdds(seal);
  if (!isUsable(seal)) return;

  const board = readBoard(evidence.bytes);
  const { config } = board.description;
  const range = isExplicit(config) ? [setting(config, "rating_low"), setting(config, "rating_high")] : null;
  const model = modelOf(board);
  const { ids, titles } = board;
  const titleOf = (item) => titles?.[item] ?? ids[item];
  const taste = makeTaste();
  const say = toasts();

  const counts = board.arrays.item_counts?.values ?? new Float64Array(ids.length);
  const name = toHex(await sha256(utf8(JSON.stringify(ids))));
  const own = ownRatings({ taste, titleOf, board, range, name, say });
  const list = recommendationList({ titleOf, taste, board, range, pick: own.pick, say });
  finder(titleSearch(titles ?? ids, ids, counts), titleOf, own.pick);
  suggestions(counts, titleOf, taste, own.pick);
  const show = () => list.show(ownList(board, model, range, taste.ratings));

  taste.onChange(show);
  own.recall();
  part("app").hidden = false;
  show();
  performance.mark("first-recommendation");
  globalThis.fedboard = Object.freeze({ board, evidence, taste, seal });
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
