// The live page of a device: what was asked, given and refused, and what is left. Nothing of ratings comes here.

import { budgetBar } from "./budget_view.js";
import { listen } from "./connection.js";
import { showLink } from "./link_view.js";
import { facts, right, rowOf } from "./tables.js";
import { bytesOf, countOf, epsilonOf } from "./words.js";
import { part } from "./shared/dom.js";

function show(state) {
  document.documentElement.dataset.state = state.state;
  part("name").textContent = state.name;
  part("state-told").textContent = state.told;
  part("trouble").hidden = state.state !== "unreadable";
  part("trouble-words").textContent = state.told;
  if (state.state === "unreadable") return;
  document.title = `epsilon ${epsilonOf(state.budget.spent)} of ${epsilonOf(state.budget.epsilon)}: ${state.name}`;
  part("budgets").replaceChildren(budgetBar("your own limit, over all runs", state.budget));
  showAsked(state.asked);
  showGiven(state.runs, state.given);
  showRefused(state.refused);
  facts("limits", state.limits.map(({ name, value }) => [name, value]));
}

function showAsked(asked) {
  part("asked-of").textContent = asked.server === "" ? "" : `by ${asked.server}`;
  facts("asked", [
    ["questions", String(asked.asked)],
    ["answered", String(asked.given)],
    ["refused", String(asked.refused)],
    ["failed", String(asked.failed)],
    ["not taken by the server", String(asked.undelivered)],
    ["sent", bytesOf(asked.sent)],
    ["received", bytesOf(asked.received)],
  ]);
}

function showGiven(runs, given) {
  part("given-count").textContent = runs.length === 0 ? "nothing so far" : `to ${countOf(runs.length, "run")}`;
  part("runs").replaceChildren(
    ...runs.map((run) => {
      const rounds = run.rounds.join(", ");
      const row = rowOf(null, run.run, rounds, right(String(run.releases)), right(partOf(run.scale)), right(epsilonOf(run.epsilon)));
      row.dataset.run = run.run;
      return row;
    }),
  );
  part("given").replaceChildren(
    ...given.map((one) => rowOf(null, one.release, one.run, one.covers, right(one.noise_multiplier.toPrecision(4)))),
  );
}

function showRefused(refused) {
  const total = refused.reduce((sum, one) => sum + one.times, 0);
  part("refused-count").textContent = total === 0 ? "nothing so far" : countOf(total, "time");
  part("refused").replaceChildren(...refused.map((one) => rowOf(null, one.told, one.code, right(String(one.times)))));
}

function partOf(scale) {
  return scale === 1 ? "all" : `${(100 * scale).toFixed(0)} %`;
}

listen({ told: show, link: showLink });
