// The list for one person: what comes from her ratings and a board, and why.

import { best } from "./ranking.js";
import { reasonOf } from "./reason.js";

/**
 * Everything that one board makes of own ratings (a map from item to rating).
 *
 * Gives `entries(k, hidden)`: `{ item, score, reason }`, best first, `score` on the range of ratings where there is one,
 * `reason` as of `reasonOf`, with `item`, the one that was rated. And `taste`, the person's own vector.
 */
export function ownList(board, model, range, ratings) {
  const items = Int32Array.from([...ratings.keys()].sort((one, other) => one - other));
  const own = model.fit(
    items,
    Float64Array.from(items, (item) => ratings.get(item)),
  );
  const scores = model.scores(own);
  const learnt = board.arrays.learnt?.values;
  const counts = board.arrays.item_counts?.values;
  const held = (score) => (range === null ? score : Math.min(Math.max(score, range[0]), range[1]));

  function entries(k, hidden) {
    const allowed = (item) => !ratings.has(item) && !hidden.has(item) && learnt?.[item] !== 0;
    // To somebody who rated nothing some boards say the same of all: then what is best known comes first.
    const flat = !items.length && counts !== undefined && scores.every((score) => score === scores[0]);
    return best(flat ? counts : scores, k, allowed).map((item) => ({
      item,
      score: held(scores[item]),
      reason: reasonFor(item),
    }));
  }

  function reasonFor(item) {
    const added = model.influences(own, item);
    const base = scores[item] - added.reduce((sum, part) => sum + part, 0);
    const reason = reasonOf(base, added, range);
    return { ...reason, item: reason.rated === null ? null : items[reason.rated] };
  }

  return { entries, taste: model.taste(own), scores, held };
}
