// The best of many.

const AT_ONCE = 4096; // so many are looked through before all but the best of them are let go

/** Row numbers of the k highest scores that are allowed, best first; equal ones by number. */
export function best(scores, k, isAllowed) {
  const better = (one, other) => scores[other] - scores[one] || one - other;
  let found = [];
  for (let item = 0; item < scores.length; item++) {
    if (isAllowed(item)) found.push(item);
    if (found.length === k + AT_ONCE) found = found.sort(better).slice(0, k);
  }
  return found.sort(better).slice(0, k);
}

/** Items nearest to one by the cosine of their factors, as `fedboard explain --neighbours` has them; those learnt alone. */
export function neighbours(factors, rank, item, k) {
  const nItems = factors.length / rank;
  const norms = new Float64Array(nItems);
  const products = new Float64Array(nItems);
  for (let other = 0; other < nItems; other++) {
    let [square, product] = [0, 0];
    for (let d = 0; d < rank; d++) {
      const value = factors[other * rank + d];
      square += value * value;
      product += value * factors[item * rank + d];
    }
    norms[other] = Math.sqrt(square);
    products[other] = product;
  }
  if (norms[item] === 0) return [];
  const cosines = products.map((product, other) => product / (norms[other] * norms[item]));
  return best(cosines, k, (other) => other !== item && norms[other] > 0).map((other) => ({
    item: other,
    cosine: Math.max(-1, Math.min(1, cosines[other])),
  }));
}
