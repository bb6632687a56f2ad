// A person's own model where it is a ridge regression of her ratings on public vectors of the items:
//
//     prediction_i = base_i + <z_i, w>,   w = (sum_k z_k z_k^T + lambda I + G)^-1 sum_k z_k y_k
//
// over the items k that she rated, y_k what the board alone leaves of rating k. It computes as the device does
// (common/kernels/reference/ridge.py): vectors, targets and ridge are 32-bit numbers, sums are 64-bit ones.

/**
 * The own model of a person, as a function of her items (row numbers, in ascending order) and ratings.
 *
 * `regression` has `vectors` (Float32Array, n_items rows), `width`, `targets(items, ratings)` (Float32Array), `ridge(n)`
 * for n ratings, `gram` (Float64Array, width x width, or null), `base` (Float64Array, n_items), `local(solution)` (the
 * person's own numbers as the device rounds them) and `scoring(local)`: `{ constant, offset, weights }`, so that the
 * score of item i, before it is held to the range, is `constant + base_i + <z_i from offset on, weights>`.
 */
export function ridgeModel(regression) {
  const { vectors, width, base } = regression;

  return (items, ratings) => {
    const targets = regression.targets(items, ratings);
    const factor = cholesky(system(items), width);
    const moment = new Float64Array(width);
    items.forEach((item, k) => {
      for (let d = 0; d < width; d++) moment[d] += vectors[item * width + d] * targets[k];
    });
    const solution = items.length ? solved(factor, moment, width) : new Float64Array(width);
    const scoring = regression.scoring(regression.local(Float32Array.from(solution)));
    return {
      scores: () => scoresOf(scoring),
      influences: (item) => influencesOf(items, targets, factor, item),
    };
  };

  function system(items) {
    const matrix = regression.gram === null ? new Float64Array(width * width) : regression.gram.slice();
    for (const item of items) {
      const row = item * width;
      for (let a = 0; a < width; a++) {
        const value = vectors[row + a];
        for (let b = 0; b <= a; b++) matrix[a * width + b] += value * vectors[row + b];
      }
    }
    const ridge = Math.fround(regression.ridge(items.length));
    for (let a = 0; a < width; a++) matrix[a * width + a] += ridge;
    return matrix;
  }

  function scoresOf({ constant, offset, weights }) {
    const found = new Float64Array(base.length);
    for (let item = 0, row = offset; item < base.length; item++, row += width) {
      let sum = 0;
      for (let d = 0; d < weights.length; d++) sum += vectors[row + d] * weights[d];
      found[item] = constant + base[item] + sum;
    }
    return found;
  }

  function influencesOf(items, targets, factor, item) {
    const pull = solved(factor, vectors.subarray(item * width, (item + 1) * width), width);
    return Array.from(items, (rated, k) => {
      let sum = 0;
      for (let d = 0; d < width; d++) sum += vectors[rated * width + d] * pull[d];
      return sum * targets[k];
    });
  }
}

/** sum_i x_i x_i^T over all items, times a weight: what unrated items say where feedback is presence. */
export function gramOf(factors, rank, weight) {
  if (!(weight > 0)) return null;
  const gram = new Float64Array(rank * rank);
  for (let row = 0; row < factors.length; row += rank) {
    for (let a = 0; a < rank; a++) {
      const value = factors[row + a];
      for (let b = 0; b < rank; b++) gram[a * rank + b] += value * factors[row + b];
    }
  }
  return gram.map((sum) => weight * sum);
}

/** Lower triangle L of a positive definite matrix L L^T, of which only the lower triangle is read. */
export function cholesky(matrix, width) {
  const lower = new Float64Array(width * width);
  for (let row = 0; row < width; row++) {
    for (let column = 0; column <= row; column++) {
      let rest = matrix[row * width + column];
      for (let k = 0; k < column; k++) rest -= lower[row * width + k] * lower[column * width + k];
      lower[row * width + column] = row === column ? Math.sqrt(rest) : rest / lower[column * width + column];
    }
  }
  return lower;
}

/** x with L L^T x = right. */
export function solved(lower, right, width) {
  const found = Float64Array.from(right);
  for (let row = 0; row < width; row++) {
    for (let k = 0; k < row; k++) found[row] -= lower[row * width + k] * found[k];
    found[row] /= lower[row * width + row];
  }
  for (let row = width - 1; row >= 0; row--) {
    for (let k = row + 1; k < width; k++) found[row] -= lower[k * width + row] * found[k];
    found[row] /= lower[row * width + row];
  }
  return found;
}
