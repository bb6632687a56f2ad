// The rounds: made, lost, under way, to come; and when the last one will be over.

import { bar, right, rowOf } from "./tables.js";
import { countOf, epsilonOf, secondsOf } from "./words.js";
import { part } from "./shared/dom.js";

const STATES = {
  made: "made",
  lost: "lost, its budget is spent",
  booked: "booked",
  next: "under way",
  "to come": "to come",
};

/** Show them; `answers` and `simulation` have what is known beside them, or are null. */
export function showRounds(rounds, state, answers, simulation) {
  const { planned, made, lost, list } = rounds;
  const losses = lost > 0 ? `, ${lost} lost` : "";
  part("rounds-count").textContent = planned > 0 ? `${made} of ${planned} made${losses}` : "";
  const share = Math.max(planned, 1);
  bar(part("rounds-bar"), [["made", made / share], ["lost", lost / share]], `${made} of ${planned} rounds made${losses}`);
  const beside = new Map((simulation?.rounds ?? []).map((one) => [one.number, one]));
  part("rounds-table").classList.toggle("alone", answers === null);
  part("rounds").replaceChildren(...list.map((round) => rowOfRound(round, state, answers?.rounds[round.number], beside.get(round.number))));
}

/** How long it will take, from how long a round usually takes. */
export function etaOf({ planned, made, lost, pace_seconds: pace, last_published: last }, state, now) {
  const left = planned - made - lost;
  if (state !== "running" || left <= 0 || pace === null || last === null) return "";
  const since = Math.max(now - last, 0);
  const first = Math.max(pace - since, 0);
  const rest = first + (left - 1) * pace;
  const late = since > 2 * pace ? `; this one takes ${secondsOf(since)} so far` : "";
  return `${countOf(left, "round")} to come, about ${secondsOf(rest)} left (a round takes ${secondsOf(pace)} usually${late})`;
}

function rowOfRound(round, state, answers, simulated) {
  const standing = round.state === "next" && state !== "running" ? "next, once somebody goes on with it" : STATES[round.state];
  const seconds = answers?.seconds ?? simulated?.seconds ?? null;
  const row = rowOf(
    round.state,
    round.name,
    standing,
    right(epsilonOf(round.epsilon)),
    { text: answers === undefined ? "–" : String(answers.answers), class: "right of-fleets" },
    right(secondsOf(seconds)),
  );
  row.dataset.round = round.number;
  return row;
}
