// The seal of the last board, in words.

import { part, el } from "../shared/dom.js";
import { bytesOf } from "../words.js";

const NAMES = {
  bytes: "Every byte",
  chain: "The chain of boards",
  ledger: "The ledger that paid for it",
  promise: "The promise, recomputed",
  noise: "The noise",
  signature: "Signature",
};
const SIGNS = { passed: "✓", failed: "✕", open: "–" };
const SPOKEN = { passed: "passed", failed: "failed", open: "not shown" };

/** Show the board and what was checked of it. */
export function showBoard(board, simulated) {
  const checks = board?.checks ?? [];
  const seal = sealOfChecks(checks, simulated);
  const badge = part("seal-badge");
  badge.dataset.state = seal.state;
  part("seal-words").textContent = board === null ? "no board yet" : `board ${board.checked ?? board.version}: ${seal.words}`;
  part("board-told").textContent =
    board === null
      ? "No board is published yet."
      : `Board ${board.version} of ${board.task}: ${board.items.toLocaleString("en")} items, ${bytesOf(board.bytes)}.`;
  const behind = board !== null && board.checked !== null && board.checked !== board.version;
  part("board-digest").textContent = board?.digest ? `Board ${board.checked}: SHA-256 ${board.digest}` : "";
  part("board-behind").textContent = behind
    ? `Checked so far: board ${board.checked}. Checking takes less than the run it watches, so the next one waits its turn.`
    : "";
  part("seal").replaceChildren(...checks.map(step));
}

function sealOfChecks(checks, simulated) {
  if (checks.length === 0) return { state: "checking", words: "checking …" };
  const failed = checks.filter((one) => one.state === "failed").map((one) => one.check);
  if (failed.some((one) => one !== "noise")) return { state: "failed", words: "its seal is broken" };
  if (failed.length > 0) return { state: "failed", words: simulated ? "not private: a simulation" : "not private" };
  if (checks.every((one) => one.state === "passed")) return { state: "passed", words: "sealed and private" };
  return { state: "open", words: "no check failed, not all were possible" };
}

function step({ check, state, told }) {
  return el(
    "li",
    { "data-step": check, "data-state": state },
    el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[state]),
    el("div", {}, el("strong", {}, NAMES[check], el("span", { class: "unseen" }, `: ${SPOKEN[state]}`)), el("p", {}, told)),
  );
}
