// The device's part of AdaDPALS (common/tasks/adadpals): ratings around the mean on the item factors. That of AdaDPSGD
// is the same.

import { gramOf, ridgeModel } from "./ridge.js";
import { arrayOf, isExplicit, setting } from "./settings.js";

/** The own model on a board of AdaDPALS. */
export function adadpalsModel(board) {
  const { config } = board.description;
  const [nItems, rank] = [board.ids.length, setting(config, "rank", 0)];
  const vectors = arrayOf(board, "item_factors", [nItems, rank]);
  const mean = isExplicit(config) ? arrayOf(board, "mean", [1])[0] : 0;
  const [strength, exponent] = [setting(config, "user_ridge", 0), setting(config, "user_ridge_exponent")];
  return ridgeModel({
    vectors,
    width: rank,
    targets: (_items, ratings) => Float32Array.from(ratings, (rating) => rating - Math.fround(mean)),
    ridge: (n) => strength * Math.max(n, 1) ** exponent,
    gram: gramOf(vectors, rank, setting(config, "unobserved_weight")),
    base: new Float64Array(nItems).fill(mean),
    local: (solution) => solution,
    scoring: (local) => ({ constant: 0, offset: 0, weights: local }),
  });
}
