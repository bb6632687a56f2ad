// The device's part of top-k lists (common/algorithms/topk): her own vector is the sum of her items' factors, and an item's
// score is its bias and the product of that sum with its own factors, scaled. Numbers are rounded as the device does.

import { arrayOf } from "./settings.js";

/** The own model on a board of top-k lists. */
export function topkModel(board) {
  const nItems = board.ids.length;
  const width = board.arrays.item_factors?.shape[1] ?? 0;
  const factors = arrayOf(board, "item_factors", [nItems, width]);
  const learnt = "learnt" in board.arrays ? arrayOf(board, "learnt", [nItems]) : new Uint8Array(nItems);
  const { base, vectors } = itemVectors(board, factors, nItems, width);

  function product(item, other, place = 0) {
    let sum = 0;
    for (let d = 0; d < width; d++) sum += vectors[item * width + d] * other[place + d];
    return sum;
  }

  return (items) => {
    const sums = new Float64Array(width);
    for (const item of items) {
      if (!learnt[item]) continue;
      for (let d = 0; d < width; d++) sums[d] += factors[item * width + d];
    }
    const taste = Float32Array.from(sums);
    const scores = () => Float64Array.from(base, (bias, item) => bias + product(item, taste));
    const added = (item, rated) => (learnt[rated] ? product(item, factors, rated * width) : 0);
    return { scores, influences: (item) => Array.from(items, (rated) => added(item, rated)) };
  };
}

/** What items are ranked by; until the last round popularity alone orders them. */
function itemVectors(board, factors, nItems, width) {
  if ("item_scale" in board.arrays) {
    const scale = Float32Array.from(arrayOf(board, "item_scale", [nItems]));
    const vectors = factors.map((value, place) => value * scale[Math.floor(place / width)]);
    return { base: Float32Array.from(arrayOf(board, "item_biases", [nItems])), vectors };
  }
  const counts = "item_counts" in board.arrays ? arrayOf(board, "item_counts", [nItems]) : new Float64Array(nItems);
  return { base: Float32Array.from(counts), vectors: new Float32Array(nItems * width) };
}
