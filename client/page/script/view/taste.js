// What somebody said so far: ratings, titles that wait for one, and what is not for her. It tells who listens.

/** Own ratings and wishes; never leaves the page. */
export function makeTaste() {
  const [ratings, waiting, hidden] = [new Map(), new Set(), new Set()];
  const listeners = [];
  const change =
    (work) =>
    (...given) => {
      work(...given);
      listeners.forEach((listener) => listener());
    };
  return {
    ratings,
    waiting,
    hidden,
    onChange: (listener) => listeners.push(listener),
    rate: change((item, rating) => {
      waiting.delete(item);
      hidden.delete(item);
      ratings.set(item, rating);
    }),
    wait: change((item) => ratings.has(item) || waiting.add(item)),
    remove: change((item) => [ratings, waiting].forEach((kept) => kept.delete(item))),
    hide: change((item) => hidden.add(item)),
    show: change((item) => hidden.delete(item)),
    replace: change((held) => {
      [ratings, waiting, hidden].forEach((kept) => kept.clear());
      held.ratings.forEach(([item, rating]) => ratings.set(item, rating));
      held.hidden.forEach((item) => hidden.add(item));
    }),
    add: change((more) => more.forEach((rating, item) => ratings.set(item, rating))),
  };
}
