// Stars on the range of the set's ratings, as a group of radio buttons: arrow keys move through them.

import { aside, el } from "../shared/dom.js";

const MOST_STEPS = 10;
const STEP_SIZES = [0.5, 1, 2, 5, 10, 20, 50, 100];

/** The ratings that can be given on a range: whole ones, or halves where it has them, at most eleven. */
export function ratingSteps([low, high]) {
  const whole = isWhole(low) && isWhole(high);
  const fits = (size) => isWhole((high - low) / size) && (high - low) / size <= MOST_STEPS && (size >= 1 || !whole);
  const step = STEP_SIZES.find(fits) ?? (high - low) / MOST_STEPS;
  const count = Math.round((high - low) / step) + 1;
  return Array.from({ length: count }, (_, n) => Number((low + n * step).toFixed(6)));
}

/** A group of stars; `chosen` is told the value. */
export function starInput(title, range, value, chosen) {
  const steps = ratingSteps(range);
  const halves = steps.length > 1 && steps[1] - steps[0] === 0.5;
  const name = `rating-${Math.random().toString(36).slice(2)}`;
  const legend = el("legend", { class: "unseen" }, `Your rating of ${title}`);
  const group = el("fieldset", { class: halves ? "stars halves" : "stars" }, legend);
  const labels = steps.map((step) => {
    const radio = el("input", { type: "radio", name, value: step, checked: step === value });
    radio.addEventListener("change", () => {
      show(step);
      chosen(step);
    });
    const star = el("span", { "aria-hidden": "true" }, "★");
    return el("label", { title: `${step} of ${range[1]}` }, radio, star, aside(`${step}`));
  });
  const show = (given) =>
    labels.forEach((label, n) => label.classList.toggle("on", given !== null && steps[n] <= given));
  labels.forEach((label, n) => {
    label.addEventListener("pointerenter", () => show(steps[n]));
    label.addEventListener("pointerleave", () => show(Number(group.querySelector("input:checked")?.value ?? NaN)));
  });
  show(value);
  group.append(...labels);
  return group;
}

function isWhole(number) {
  return Math.abs(number - Math.round(number)) < 1e-9;
}
