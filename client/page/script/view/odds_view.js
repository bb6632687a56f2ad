// The promise in odds: how often somebody is right at most who bets on one person, in a hundred little figures.

import { rightBetsOfEpsilon, rightBetsOfMu } from "../seal/gaussian.js";
import { FAILED, PASSED, shortNumber } from "../seal/seal.js";
import { part, svgEl } from "../shared/dom.js";

const BETS = {
  "add-remove": "whether you took part",
  replace: "which of two lists of ratings was yours",
  "replace-values": "which of two lists of values was yours (how many you have is not protected)",
  "replace-labels": "which of two lists of labels was yours (all else about you is not protected)",
};

/** Right bets in a hundred, rounded up; from what a seal holds. */
export function betsInHundred({ claim, numbers }) {
  const share = numbers?.exact ? rightBetsOfMu(numbers.mu) : rightBetsOfEpsilon(claim.epsilon, claim.delta);
  return Math.ceil(100 * share - 1e-9);
}

/** Show the promise of a seal. */
export function showOdds(seal) {
  const { claim } = seal;
  const why = whyNone(seal);
  part("odds").hidden = why !== null;
  part("odds-none").hidden = why === null;
  part("odds-none").textContent = why ?? "";
  if (why !== null) return;
  const bets = betsInHundred(seal);
  const would = seal.simulation ? "would be" : "is";
  part("odds-words").textContent =
    `Somebody who knows everybody else's ratings, sees all that this run published and bets on ` +
    `${BETS[claim.adjacency]} ${would} right at most ${bets} times in 100.`;
  part("odds-more").textContent = seal.simulation
    ? "Would be, with secure noise. This board is a simulation: who has its seed takes the noise out, and no odds hold."
    : `Who tosses a coin is right 50 times. In the terms of the certificate: ` +
      `${seal.numbers?.exact ? `mu ${shortNumber(seal.numbers.mu)}, ` : ""}epsilon ${shortNumber(claim.epsilon)} at delta ` +
      `${shortNumber(claim.delta)} for each ${claim.unit}, ${claim.adjacency}.${hedge(seal)}`;
  const icons = part("odds-icons");
  icons.replaceChildren(...Array.from({ length: 100 }, (_, n) => figure(n, kindOf(n, bets))));
  icons.setAttribute("aria-label", `${bets} of 100 bets right, at most; 50 by tossing a coin`);
  icons.classList.toggle("void", seal.state === FAILED);
}

/** Why no odds are told; null where they are. */
function whyNone({ claim, numbers, steps }) {
  if (claim === null) return "The seal does not hold, so nothing is promised here.";
  if (numbers !== null || steps.signature.state === PASSED) return null;
  return "This page could not recompute what the certificate claims, and nobody signed it: it tells no odds.";
}

/** On whose word the promise rests, where it is not all recomputed from something signed. */
function hedge({ numbers, population, steps }) {
  const sentences = [];
  if (numbers === null) sentences.push("Not recomputed here: who signed the board vouches for it.");
  else if (steps.signature.state !== PASSED) sentences.push("Nobody signed this board: it is what its own certificate says.");
  if (population !== null) {
    const [budget, delta] = [population.budget, population.delta].map(shortNumber);
    sentences.push(`All runs on these people together are promised epsilon ${budget} at delta ${delta}.`);
  }
  return sentences.map((sentence) => ` ${sentence}`).join("");
}

function kindOf(n, bets) {
  if (n < 50) return "coin";
  return n < bets ? "more" : "wrong";
}

function figure(n, kind) {
  const [x, y] = [(n % 20) * 16, Math.floor(n / 20) * 22];
  const head = svgEl("circle", { cx: 8, cy: 5, r: 3.6 });
  const body = svgEl("path", { d: "M2.5 19v-4.2a4.3 4.3 0 0 1 4.3-4.3h2.4a4.3 4.3 0 0 1 4.3 4.3V19z" });
  return svgEl("g", { class: kind, transform: `translate(${x} ${y})` }, head, body);
}
