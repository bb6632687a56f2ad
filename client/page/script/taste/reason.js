// Why an item has its score, in short (the same rule as client/recommending/explain.py).

const HARDLY = 0.01; // a net effect of at most this share of the range is none that a person would see

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
