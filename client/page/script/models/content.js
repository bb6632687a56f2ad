// What a device knows of the items without anybody's ratings: a Gaussian process over public features (see
// common/algorithms/shared/regression.py), with a ridge that her own ratings decide (common/kernels/reference/own_models.py).

import { cholesky, solved } from "./ridge.js";

const [OF_LABELS, OF_NUMBERS, OF_BOTH] = [0.75, 0.4, 0.55];
const [OF_KNOWN, OF_LIKED, FARTHEST] = [0.35, 0.3, 3];
const [BUMPS, BUMP_WIDTH, EVERY, MOST_CURVED, MOST_CROSSED] = [9, 1 / 3, 3, 3, 192];
const RIDGES = [4, 16];
const LEAST = 1e-12;

/**
 * Phi of every item, and how known and how liked it is: `{ vectors (Float32Array), width }`, or null where the board's
 * catalogue has no features.
 */
export function contentOf({ features, ids, arrays }) {
  if (!features) return null;
  const n = ids.length;
  const labels = unitRows(Array.from({ length: n }, (_, item) => rowOf(features.labels, item)));
  const numbers = Array.from({ length: features.numbers.shape[1] }, (_, column) =>
    Float64Array.from({ length: n }, (_, item) => rowOf(features.numbers, item)[column]));
  const parts = numbers.length > MOST_CURVED
    ? [scaled(OF_LABELS, labels), scaled(OF_LABELS, coordinates(numbers, n))]
    : curved(labels, numbers, n);
  if (!parts.some((part) => part[0].length)) return null;
  const known = Array.from({ length: n }, (_, item) => Math.log(Math.max(arrays.item_counts?.values[item] ?? 0, 1)));
  const liked = Array.from({ length: n }, (_, item) => arrays.item_biases?.values[item] ?? 0);
  const held = (length, values) => values.map((value) => length * Math.max(-FARTHEST, Math.min(FARTHEST, value)));
  const facts = [held(OF_KNOWN, standardised(known)), held(OF_LIKED, standardised(liked))];
  parts.push(Array.from({ length: n }, (_, item) => facts.map((fact) => fact[item])));
  const width = parts.reduce((sum, part) => sum + part[0].length, 0);
  const vectors = new Float32Array(n * width);
  for (let item = 0; item < n; item++) vectors.set(parts.flatMap((part) => part[item]), item * width);
  return { vectors, width };
}

/** The ridge on content of one person: `rows` are (x, phi) of her items, of which the first `width` are x. */
export function contentRidge(rows, targets, width, ridge) {
  const measured = rows.length < rows[0].length
    ? byRatings(rows, targets, width, ridge)
    : byCoordinates(rows, targets, width, ridge);
  const total = inner(targets, targets);
  const evidence = [...RIDGES, Infinity].map((candidate) => {
    const [left, halfLogDet] = measured(candidate);
    return -0.5 * targets.length * Math.log(Math.max(left, LEAST * Math.max(total, LEAST))) - halfLogDet;
  });
  const most = Math.max(...evidence);
  const shares = evidence.map((one) => Math.exp(one - most));
  const precision = RIDGES.reduce((sum, candidate, k) => sum + shares[k] / candidate, 0);
  return 1 / Math.max(precision / shares.reduce((sum, share) => sum + share, 0), LEAST);
}

function byRatings(rows, targets, width, ridge) {
  const n = rows.length;
  return (candidate) => {
    const matrix = new Float64Array(n * n);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b <= a; b++) {
        const along = inner(rows[a].subarray(0, width), rows[b].subarray(0, width)) / ridge;
        matrix[a * n + b] = along + inner(rows[a].subarray(width), rows[b].subarray(width)) / candidate;
      }
      matrix[a * n + a] += 1;
    }
    const lower = cholesky(matrix, n);
    return [inner(targets, solved(lower, targets, n)), halfLogDetOf(lower, n)];
  };
}

function byCoordinates(rows, targets, width, ridge) {
  const size = rows[0].length;
  const [gram, moment] = [new Float64Array(size * size), new Float64Array(size)];
  rows.forEach((row, k) => {
    for (let a = 0; a < size; a++) {
      moment[a] += row[a] * targets[k];
      for (let b = 0; b <= a; b++) gram[a * size + b] += row[a] * row[b];
    }
  });
  return (candidate) => {
    const root = (place) => 1 / Math.sqrt(place < width ? ridge : candidate); // 0 for infinity
    const matrix = gram.map((sum, place) => sum * root(Math.floor(place / size)) * root(place % size));
    for (let a = 0; a < size; a++) matrix[a * size + a] += 1;
    const [lower, right] = [cholesky(matrix, size), moment.map((sum, place) => sum * root(place))];
    return [inner(targets, targets) - inner(right, solved(lower, right, size)), halfLogDetOf(lower, size)];
  };
}

function halfLogDetOf(lower, size) {
  let sum = 0;
  for (let place = 0; place < size; place++) sum += Math.log(lower[place * size + place]);
  return sum;
}

function curved(labels, numbers, n) {
  const along = numbers.map(bumps);
  const none = Array.from({ length: n }, () => []);
  const all = along.reduce((rows, each) => rows.map((row, item) => [...row, ...each[item]]), none);
  const sparse = along.reduce((rows, each) =>
    rows.map((row, item) => [...row, ...each[item].filter((_, place) => place % EVERY === 0)]), none);
  const both = unitRows(crossed(labels, sparse));
  return [scaled(OF_LABELS, labels), scaled(OF_NUMBERS, unitRows(all)), scaled(OF_BOTH, both)];
}

/** Where an item stands along a number: rows of norm 1, zeros where it is unknown. */
function bumps(number) {
  const known = number.filter(Number.isFinite).sort();
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const deviation = Math.sqrt(known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / known.length);
  if (!(deviation > 0)) return Array.from(number, () => []);
  const centres = Array.from({ length: BUMPS }, (_, k) => quantile(known, (k + 0.5) / BUMPS));
  return unitRows(Array.from(number, (value) => {
    if (!Number.isFinite(value)) return centres.map(() => 0);
    const apart = centres.map((centre) => (value - centre) / (BUMP_WIDTH * deviation));
    const nearest = Math.min(...apart.map(Math.abs));
    return apart.map((distance) => Math.exp(-0.5 * (distance ** 2 - nearest ** 2)));
  }));
}

function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const [low, high] = [Math.floor(place), Math.ceil(place)];
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

function crossed(labels, sparse) {
  if (!sparse[0].length) return sparse;
  const counts = labels[0].map((_, label) => labels.reduce((sum, row) => sum + (row[label] ? 1 : 0), 0));
  const kept = [...counts.keys()].sort((one, other) => counts[other] - counts[one] || one - other)
    .slice(0, Math.floor(MOST_CROSSED / sparse[0].length)).sort((one, other) => one - other);
  return labels.map((row, item) => kept.flatMap((label) => sparse[item].map((height) => row[label] * height)));
}

function coordinates(numbers, n) {
  const columns = numbers.map(standardised);
  return Array.from({ length: n }, (_, item) => {
    const row = columns.map((column) => column[item] / Math.sqrt(columns.length));
    const norm = Math.max(Math.sqrt(inner(row, row)), 1);
    return row.map((value) => value / norm);
  });
}

function standardised(number) {
  const known = number.filter(Number.isFinite);
  const mean = known.reduce((sum, value) => sum + value, 0) / Math.max(known.length, 1);
  const spread = Math.sqrt(known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(known.length, 1));
  return number.map((value) => (Number.isFinite(value) ? (value - mean) / (spread > 0 ? spread : 1) : 0));
}

function rowOf({ values, shape: [, width] }, item) {
  return Array.from(values.subarray(item * width, (item + 1) * width));
}

function unitRows(rows) {
  return rows.map((row) => {
    const norm = Math.sqrt(inner(row, row));
    return row.map((value) => value / (norm > 0 ? norm : 1));
  });
}

function scaled(length, rows) {
  return rows.map((row) => row.map((value) => length * value));
}

function inner(one, other) {
  let sum = 0;
  for (let place = 0; place < one.length; place++) sum += one[place] * other[place];
  return sum;
}
