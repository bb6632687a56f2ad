// The list for one person: what comes from her ratings and a board, and why (the same rule as
// client/recommending/recommend.py).

import { best } from "./ranking.js";

const HARDLY = 0.01; // a net effect of at most this share of the range is none that a person would see

/**
 * Everything that one board makes of own ratings (a map from item to rating).
 *
 * Gives `entries(k, hidden)`: `{ item, score, reason }`, best first, `score` on the range of ratings where there is one,
 * `reason` as of `reasonOf`, with `item`, the one that was rated.
 */
export function ownList(board, model, range, ratings) {
  const items = Int32Array.from([...ratings.keys()].sort((one, other) => one - other));
  const own = model(items, Float64Array.from(items, (item) => ratings.get(item)));
  const scores = own.scores();
  const learnt = board.arrays.learnt?.values;
  const counts = board.arrays.item_counts?.values;
  const held = (score) => (range === null ? score : Math.min(Math.max(score, range[0]), range[1]));

  function entries(k, hidden) {
    const allowed = (item) => !ratings.has(item) && !hidden.has(item) && learnt?.[item] !== 0;
    // To somebody who rated nothing some boards say the same of all: then what is best known comes first.
    const flat = !items.length && counts !== undefined && scores.every((score) => score === scores[0]);
    const entry = (item) => ({ item, score: held(scores[item]), reason: reasonFor(item) });
    return best(flat ? counts : scores, k, allowed).map(entry);
  }

  function reasonFor(item) {
    const added = own.influences(item);
    const base = scores[item] - added.reduce((sum, part) => sum + part, 0);
    const reason = reasonOf(base, added, range);
    return { ...reason, item: reason.rated === null ? null : items[reason.rated] };
  }

  return { entries, scores, held };
}

/**
 * What own ratings do to one item: `effect` (raised, lowered, hardly-moved), `net` (what they add together) and `rated`
 * (the place of the one that adds most in that direction, null where they hardly moved it). `base` is the score for
 * somebody without ratings, `added` what each own rating adds, `range` that of ratings or null.
 */
export function reasonOf(base, added, range) {
  const net = added.reduce((sum, part) => sum + part, 0);
  const [low, high] = range ?? [0, Math.max(Math.abs(base), Math.abs(base + net))];
  if (Math.abs(net) <= HARDLY * (high - low)) return { effect: "hardly-moved", net, rated: null };
  const most = added.reduce((found, part, k) => (part * net > added[found] * net ? k : found), 0);
  return { effect: net > 0 ? "raised" : "lowered", net, rated: most };
}
