// Numbers on held-out ratings: they are not private, and the label above them says so.

import { bytesOf } from "../words.js";
import { right, rowOf } from "../tables.js";
import { el, part, svgEl } from "../shared/dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [440, 170, 58, 12, 14, 28];

/** Show them under their label, or nothing. */
export function showSimulation(simulation) {
  part("simulation").hidden = simulation === null;
  if (simulation === null) return;
  part("simulation-label").textContent = simulation.label;
  const judged = simulation.rounds.filter((round) => Object.keys(round.metrics).length > 0);
  const rows = [
    ...judged.map((round) => ({ name: round.stage, metrics: round.metrics })),
    ...simulation.final.map(({ model, metrics }) => ({ name: model, metrics })),
  ];
  const names = [...new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)))];
  const heads = names.map((name) => el("th", { scope: "col", class: "right" }, name.replaceAll("_", " ")));
  part("metrics-head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, "After"), ...heads));
  part("metrics").replaceChildren(
    ...rows.map(({ name, metrics }) => rowOf(null, name, ...names.map((one) => right(metrics[one]?.toFixed(4) ?? "–")))),
  );
  draw(judged, names.find((name) => name.endsWith("rmse")) ?? names[0]);
  const last = simulation.rounds.findLast((round) => round.bytes_up !== null);
  part("traffic").textContent =
    last === undefined ? "" : `In the last round a client sent ${bytesOf(last.bytes_up.mean)} on average, ${bytesOf(last.bytes_up.max)} at most, and received ${bytesOf(last.bytes_down)}.`;
}

function draw(judged, name) {
  const values = judged.map((round) => round.metrics[name]).filter((value) => value !== undefined);
  part("chart-figure").hidden = values.length < 2;
  if (values.length < 2) return;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const across = (k) => LEFT + (k * (WIDTH - LEFT - RIGHT)) / (values.length - 1);
  const down = (value) => TOP + ((high - value) * (HEIGHT - TOP - BOTTOM)) / (high - low || 1);
  const spots = values.map((value, k) => [across(k), down(value)]);
  const text = (x, y, anchor, words) => svgEl("text", { x, y, "text-anchor": anchor }, words);
  part("chart").setAttribute("aria-label", `${name.replaceAll("_", " ")} from ${values[0].toFixed(4)} to ${values.at(-1).toFixed(4)}`);
  part("chart").replaceChildren(
    ...[high, low].flatMap((value) => [
      svgEl("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: down(value), y2: down(value) }),
      text(LEFT - 6, down(value) + 4, "end", value.toFixed(4)),
    ]),
    svgEl("polyline", { class: "line", points: spots.map((spot) => spot.join(",")).join(" ") }),
    ...spots.map(([x, y]) => svgEl("circle", { class: "point", cx: x, cy: y, r: 3.5 })),
    text(LEFT, HEIGHT - 8, "start", judged[0].stage),
    text(WIDTH - RIGHT, HEIGHT - 8, "end", judged.at(-1).stage),
  );
  part("chart-told").textContent = `${name.replaceAll("_", " ")} after each round, on ratings that were held out`;
}
