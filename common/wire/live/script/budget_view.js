// Budgets as bars: spent, what the round under way will spend, what is left.

import { bar } from "./tables.js";
import { deltaOf, epsilonOf, leftOf } from "./words.js";
import { el } from "./shared/dom.js";

/** One budget with its words and its bar. */
export function budgetBar(name, { epsilon, delta, spent, next, left, reserved }) {
  const coming = next ?? 0;
  const rest = left ?? Math.max(epsilon - spent, 0);
  const held = reserved ?? 0;
  const after = coming > 0 ? `, ${epsilonOf(coming)} of it in the next round` : "";
  const promised = held > 0 ? `, ${epsilonOf(held)} of it reserved for runs under way` : "";
  const told = `epsilon ${epsilonOf(spent)} of ${epsilonOf(epsilon)} is spent, ${leftOf(rest)} left${after}${promised}`;
  const track = el("div", { class: "track", role: "img" });
  bar(track, [["spent", spent / epsilon], ["next", coming / epsilon], ["reserved", held / epsilon]], `${name}: ${told}`);
  const words = el(
    "p",
    { class: "budget-words" },
    el("strong", {}, `${epsilonOf(spent)} of ${epsilonOf(epsilon)}`),
    ` epsilon at delta ${deltaOf(delta)}: ${name}; ${leftOf(rest)} left${after}${promised}`,
  );
  return el("div", { class: "budget", "data-budget": name }, words, track);
}
