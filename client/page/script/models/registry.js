// The own models that this page knows, by the name of the task on the board: a module each, and a line here. A model has
// `fit(items, ratings)`, and of what that gives `scores(own)`, `influences(own, item)` and `taste(own)` (see ridge.js).

import { adadpalsModel, residualModel } from "./regressions.js";
import { topkModel } from "./topk.js";

export const MODELS = {
  adadpals: adadpalsModel,
  adadpsgd: adadpalsModel,
  langevin: residualModel,
  residual: residualModel,
  topk: topkModel,
};

/** The own model on a board; throws a sentence where this page knows none. */
export function modelOf(board) {
  const { task } = board.description;
  if (!Object.hasOwn(MODELS, task)) {
    throw new Error(`this page does not know the own model of boards that the task ${task} made; fedboard recommend does`);
  }
  return MODELS[task](board);
}
