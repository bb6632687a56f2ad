// The seal as it is seen: its steps as they are done, the verdict, and a byte that can be changed.

import { FAILED, isUsable, OPEN, PASSED, sealOf, stepsOf } from "../seal/seal.js";
import { aside, el, part } from "../shared/dom.js";

const STEP_NAMES = {
  signature: "Signature",
  bytes: "Every byte",
  chain: "The chain of boards",
  witnesses: "Witnesses",
  promise: "The promise, recomputed",
  noise: "The noise",
};
const SIGNS = { [PASSED]: "✓", [FAILED]: "✕", [OPEN]: "–" };
const SPOKEN = { [PASSED]: "passed", [FAILED]: "failed", [OPEN]: "not shown" };

/** Make the seal work: `evidence` is what the board has; `checked` is told each seal. */
export function sealView(evidence, checked) {
  let turn = 0;
  let changedAt = null;

  async function check() {
    const mine = ++turn;
    const { bytes, ...rest } = evidence;
    const rows = new Map(stepsOf(rest).map((step) => [step, stepRow(step)]));
    part("seal-steps").replaceChildren(...rows.values());
    verdict("checking", "Checking …");
    const held = changedAt === null ? bytes : withChangedByte(bytes, changedAt);
    const seal = await sealOf({ ...rest, bytes: held }, (step, state, sentence) => {
      if (mine === turn) fill(rows.get(step), step, state, sentence);
    });
    if (mine !== turn) return seal;
    verdict(seal.state, sentenceOf(seal));
    if (isUsable(seal)) caution(seal);
    else refuse(`${sentenceOf(seal)}. ${Object.values(seal.steps).find(({ state }) => state === FAILED).sentence}`);
    checked(seal);
    return seal;
  }

  /** Say above all else what was not shown of a board that is used. */
  function caution(seal) {
    const open = Object.values(seal.steps).filter(({ state }) => state !== PASSED).slice(0, 1);
    const words = [...new Set(seal.simulation ? [seal.steps.noise, ...open] : open)].map(({ sentence }) => sentence);
    if (seal.steps.signature.state !== PASSED) words.push("Anybody may have made what stands below.");
    trouble(seal.simulation ? sentenceOf(seal) : `Not verified: ${sentenceOf(seal)}`, words.join(" "), true);
  }

  function sentenceOf(seal) {
    if (seal.simulation) return "Not private: a simulation";
    if (seal.state === PASSED) return "Sealed and private";
    const failed = Object.values(seal.steps).filter(({ state }) => state === FAILED);
    if (failed.length) return (failed.length === 1 && seal.outdated) || "The seal is broken";
    return seal.steps.signature.state === PASSED ? "Signed, not all recomputed" : "Not signed";
  }

  function changeByte() {
    if (changedAt !== null) return afresh();
    const { bytes } = evidence;
    changedAt = Math.floor(bytes.length * (0.5 + Math.random() / 4));
    const [before, after] = [bytes[changedAt], bytes[changedAt] ^ 1];
    tell(`Byte ${changedAt} of ${bytes.length} is ${after} in place of ${before}: one bit of it.`);
    return check();
  }

  function tell(words) {
    part("change").textContent = words === "" ? "Change one byte" : "Put the byte back";
    part("changed").textContent = words;
  }

  function afresh() {
    changedAt = null;
    tell("");
    return check();
  }

  part("change").addEventListener("click", changeByte);
  return { check: afresh, changeByte };
}

function verdict(state, sentence) {
  for (const place of document.querySelectorAll(".verdict")) {
    place.dataset.state = state;
    place.querySelector(".verdict-words").textContent = sentence;
  }
  document.documentElement.dataset.seal = state;
}

/** Show nothing of a board, and why; `short` is for the badge, where no check says it. */
export function refuse(words, short = null) {
  if (short !== null) verdict(FAILED, short);
  part("app").hidden = true;
  trouble("Refused: nothing of this board is shown", words, false);
}

/** Say something above all else, and nothing where there are no words. */
function trouble(head, words, isCaution) {
  part("trouble").hidden = words === "";
  part("trouble").classList.toggle("caution", isCaution);
  part("trouble-head").textContent = head;
  part("trouble-words").textContent = words;
}

function withChangedByte(bytes, place) {
  const changed = bytes.slice();
  changed[place] ^= 1;
  return changed;
}

function stepRow(step) {
  const sign = el("span", { class: "sign", "aria-hidden": "true" }, "…");
  const words = el("div", {}, el("strong", {}, STEP_NAMES[step]), el("p", {}, ""));
  return el("li", { "data-step": step, "data-state": "waiting" }, sign, words);
}

function fill(row, step, state, sentence) {
  row.dataset.state = state;
  row.querySelector(".sign").textContent = SIGNS[state];
  row.querySelector("strong").replaceChildren(STEP_NAMES[step], aside(`: ${SPOKEN[state]}`));
  row.querySelector("p").textContent = sentence;
}
