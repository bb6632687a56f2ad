// The device's part of the tasks that are regressions. AdaDPALS and AdaDPSGD: ratings around the mean on the item factors.
// Residual alternating minimisation and Langevin: ratings around the mean and the item biases on a constant, her own
// bias, and the item factors.

import { contentOf, contentRidge } from "./content.js";
import { gramOf, ridgeModel } from "./ridge.js";
import { arrayOf, isExplicit, setting } from "./settings.js";

/** The own model on a board of AdaDPALS, with this ridge. */
export function adadpalsModel(board, strength = setting(board.description.config, "user_ridge", 0)) {
  const { config } = board.description;
  const [nItems, rank] = [board.ids.length, setting(config, "rank", 0)];
  const vectors = arrayOf(board, "item_factors", [nItems, rank]);
  const mean = isExplicit(config) ? arrayOf(board, "mean", [1])[0] : 0;
  return ridgeModel({
    vectors,
    width: rank,
    targets: (_items, ratings) => Float32Array.from(ratings, (rating) => rating - Math.fround(mean)),
    ridge: ridgeOf(strength, config),
    gram: gramOf(vectors, rank, setting(config, "unobserved_weight")),
    base: new Float64Array(nItems).fill(mean),
    local: (solution) => solution,
    scoring: (local) => ({ constant: 0, offset: 0, weights: local }),
  });
}

/** The ridge of a person with n ratings. */
function ridgeOf(strength, config) {
  const exponent = setting(config, "user_ridge_exponent");
  return (n) => strength * Math.max(n, 1) ** exponent;
}

/** The own model on a board of residual alternating minimisation. */
export function residualModel(board) {
  const { config } = board.description;
  const strength = userRidge(board);
  if (!isExplicit(config)) return adadpalsModel(board, strength); // presence has neither mean nor biases
  const [nItems, rank] = [board.ids.length, setting(config, "rank", 0)];
  const factors = arrayOf(board, "item_factors", [nItems, rank]);
  const biases = arrayOf(board, "item_biases", [nItems]);
  const mean = "mean" in board.arrays ? arrayOf(board, "mean", [1])[0] : 0;
  // One ridge for all coordinates: the constant column is scaled so that it stands for the bias's own ridge.
  const scale = Math.fround(Math.sqrt(strength / setting(config, "user_bias_ridge", 0)));
  const regression = {
    vectors: withConstant(factors, nItems, rank, scale),
    width: rank + 1,
    targets: (items, ratings) => Float32Array.from(items, (item, k) =>
      Math.fround(Math.fround(ratings[k]) - Math.fround(mean)) - biases[item]),
    ridge: ridgeOf(strength, config),
    gram: null,
    base: Float64Array.from(biases, (bias) => mean + bias),
    local: (solution) => {
      solution[0] *= scale;
      return solution;
    },
    scoring: (local) => ({ constant: local[0], offset: 1, weights: local.subarray(1) }),
  };
  const content = board.description.task === "residual" ? contentOf(board) : null;
  return content === null ? ridgeModel(regression) : withContent(regression, content);
}

/**
 * The same with content beside the factors. How far a person's ratings believe it is her own, so she has a regression
 * of her own: content is scaled so that one ridge serves for all coordinates.
 */
function withContent(regression, content) {
  const { width, base } = regression;
  return (items, ratings) => {
    const targets = regression.targets(items, ratings);
    const ridge = Math.fround(regression.ridge(items.length));
    const rowOf = (item) => joinedRow(regression, content, item, 1, new Float64Array(width + content.width));
    const rows = Array.from(items, rowOf);
    const chosen = items.length ? contentRidge(rows, targets, width, ridge) : 1;
    const scale = Math.sqrt(ridge / chosen);
    const vectors = new Float64Array(base.length * (width + content.width));
    for (let item = 0, row = 0; item < base.length; item++, row += width + content.width) {
      joinedRow(regression, content, item, scale, vectors.subarray(row, row + width + content.width));
    }
    return ridgeModel({ ...regression, vectors, width: width + content.width })(items, ratings);
  };
}

function joinedRow({ vectors, width }, content, item, scale, row) {
  row.set(vectors.subarray(item * width, (item + 1) * width));
  for (let d = 0; d < content.width; d++) row[width + d] = scale * content.vectors[item * content.width + d];
  return row;
}

/**
 * lambda_v: that of the configuration, which may be another one with the last board of a run, in units of a rating's
 * released variance; or what the run found out about ridges, which is on the board.
 */
function userRidge(board) {
  const { task, version, config } = board.description;
  const ofRatings = task === "residual" && isExplicit(config);
  const unit = ofRatings && "spread" in board.arrays ? arrayOf(board, "spread", [1])[0] ** 2 : 1;
  const before = config.start === "spectral" ? 3 : 2;
  if (typeof config.final_user_ridge === "number" && version >= before + setting(config, "rounds", 0)) {
    return setting(config, "final_user_ridge", 0) * unit;
  }
  if (ofRatings && "user_ridge" in board.arrays) return arrayOf(board, "user_ridge", [1])[0];
  return setting(config, "user_ridge", 0) * unit;
}

function withConstant(factors, nItems, rank, scale) {
  const columns = new Float32Array(nItems * (rank + 1));
  for (let item = 0; item < nItems; item++) {
    columns[item * (rank + 1)] = scale;
    columns.set(factors.subarray(item * rank, (item + 1) * rank), item * (rank + 1) + 1);
  }
  return columns;
}
