// The seal as it is seen: its steps as they are done, and the verdict.

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

/** Check what a board has, show it, and give the seal. */
export async function shownSeal(evidence) {
  const rows = new Map(stepsOf(evidence).map((step) => [step, stepRow(step)]));
  part("seal-steps").replaceChildren(...rows.values());
  const seal = await sealOf(evidence, (step, state, sentence) => fill(rows.get(step), step, state, sentence));
  const words = sentenceOf(seal);
  verdict(seal.state, words);
  if (isUsable(seal)) caution(seal, words);
  else refuse(`${words}. ${Object.values(seal.steps).find(({ state }) => state === FAILED).sentence}`);
  return seal;
}

/** Say above all else what was not shown of a board that is used. */
function caution(seal, words) {
  const open = Object.values(seal.steps).filter(({ state }) => state !== PASSED).slice(0, 1);
  const told = [...new Set(seal.simulation ? [seal.steps.noise, ...open] : open)].map(({ sentence }) => sentence);
  if (seal.steps.signature.state !== PASSED) told.push("Anybody may have made what stands below.");
  trouble(seal.simulation ? words : `Not verified: ${words}`, told.join(" "), true);
}

function sentenceOf(seal) {
  if (seal.simulation) return "Not private: a simulation";
  if (seal.state === PASSED) return "Sealed and private";
  const failed = Object.values(seal.steps).filter(({ state }) => state === FAILED);
  if (failed.length) return (failed.length === 1 && seal.outdated) || "The seal is broken";
  return seal.steps.signature.state === PASSED ? "Signed, not all recomputed" : "Not signed";
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
