// The own models that this page knows, by the name of the task on the board: a module each, and a line here. A model is a
// function of own items and ratings. It gives `scores()`, of all items before they are held to the range of ratings, and
// `influences(item)`, what each own rating adds to the score of one item.

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
