// The best of many.

/** Row numbers of the k highest scores that are allowed, best first; equal ones by number. */
export function best(scores, k, isAllowed) {
  const heap = []; // the worst of the best is first
  const worse = (one, other) => scores[one] < scores[other] || (scores[one] === scores[other] && one > other);
  const sink = () => {
    for (let place = 0; ;) {
      let least = place;
      for (const child of [2 * place + 1, 2 * place + 2]) {
        if (child < heap.length && worse(heap[child], heap[least])) least = child;
      }
      if (least === place) return;
      [heap[place], heap[least]] = [heap[least], heap[place]];
      place = least;
    }
  };
  for (let item = 0; item < scores.length; item++) {
    if (heap.length === k && !worse(heap[0], item)) continue;
    if (!isAllowed(item)) continue;
    if (heap.length < k) {
      heap.push(item);
      for (let place = heap.length - 1; place > 0;) {
        const parent = (place - 1) >> 1;
        if (!worse(heap[place], heap[parent])) break;
        [heap[place], heap[parent]] = [heap[parent], heap[place]];
        place = parent;
      }
    } else {
      heap[0] = item;
      sink();
    }
  }
  return heap.sort((one, other) => (worse(one, other) ? 1 : -1));
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
