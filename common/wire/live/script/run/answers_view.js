// Who answered: for the operator's own machine.

import { facts } from "../tables.js";
import { bytesOf } from "../words.js";
import { el, part } from "../shared/dom.js";

/** Show the counts of a fleet, or nothing where there are none for this reader. */
export function showAnswers(answers) {
  part("answers").hidden = answers === null;
  if (answers === null) return;
  const refused = Object.entries(answers.refused);
  const total = refused.reduce((sum, [, times]) => sum + times, 0);
  facts("answers-facts", [
    ["answers taken", String(answers.answers)],
    ["refused", String(total)],
    ["silent (dropouts)", answers.silent === null ? "–" : String(answers.silent)],
    ["rows left out", String(answers.rejected_rows)],
    ["bytes of answers", bytesOf(answers.bytes_up)],
    ["bytes of questions", bytesOf(answers.bytes_down)],
  ]);
  part("refused").replaceChildren(...refused.map(([code, times]) => el("li", { class: "chip" }, `${code}: ${times}`)));
}
