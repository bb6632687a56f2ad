// The live page of a run: each state that comes is shown as a whole.

import { budgetBar } from "./budget_view.js";
import { listen, serverNow } from "./connection.js";
import { showLink } from "./link_view.js";
import { etaOf, showRounds } from "./rounds_view.js";
import { showAnswers } from "./run/answers_view.js";
import { showFleet } from "./run/fleet_view.js";
import { showBoard } from "./run/seal_words.js";
import { showSimulation } from "./run/simulated.js";
import { right, rowOf } from "./tables.js";
import { epsilonOf } from "./words.js";
import { part } from "./shared/dom.js";

let latest = null;

function show(state) {
  document.documentElement.dataset.state = state.state;
  part("name").textContent = state.name;
  part("state-told").textContent = state.told;
  part("trouble").hidden = state.state !== "unreadable";
  part("trouble-words").textContent = state.told;
  if (state.state === "unreadable") return;
  latest = state;
  const simulated = state.noise.protection === "simulation";
  part("simulation-note").hidden = !simulated;
  document.title = `${state.rounds.made} of ${state.rounds.planned} rounds: ${state.name}`;
  showBudgets(state);
  showRounds(state.rounds, state.state, state.answers, state.simulation);
  showAnswers(state.answers);
  showFleet(state.fleet);
  showBoard(state.board, simulated);
  showSimulation(state.simulation);
  showReleases(state.releases);
  tick();
}

function showBudgets({ budget, populations }) {
  const bars = budget === null ? [] : [budgetBar("this run", budget)];
  for (const one of populations) bars.push(budgetBar(one.name, { ...one, reserved: one.committed - one.spent }));
  part("budgets").replaceChildren(...bars);
}

function showReleases(releases) {
  const booked = releases.filter((release) => release.booked).length;
  part("releases-count").textContent = `${booked} of ${releases.length} booked`;
  part("releases").replaceChildren(
    ...releases.map((release) =>
      rowOf(
        release.booked ? "booked-release" : "planned",
        release.name,
        release.round,
        right(release.noise_multiplier === null ? "–" : release.noise_multiplier.toPrecision(4)),
        right(`${release.exact ? "" : "at most "}${epsilonOf(release.epsilon)}`),
        release.booked ? "booked" : "planned",
      ),
    ),
  );
}

function tick() {
  if (latest !== null) part("eta").textContent = etaOf(latest.rounds, latest.state, serverNow());
}

setInterval(tick, 1000);
listen({ told: show, link: showLink });
