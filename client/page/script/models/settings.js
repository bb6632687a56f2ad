// What a model reads of a board's public configuration, held to be there and in range before anything is computed.

/** A number of the configuration; throws where it is none, or not above `least`. */
export function setting(config, name, least = -Infinity) {
  const value = config[name];
  if (typeof value !== "number" || !(value > least) || !Number.isFinite(value)) {
    throw new Error(`the board's configuration does not state ${name}`);
  }
  return value;
}

/** An array of a board, of this shape; throws where it is missing, of another shape, or holds no finite number. */
export function arrayOf(board, name, shape) {
  const array = board.arrays[name];
  const fits = array && array.shape.length === shape.length && array.shape.every((side, n) => side === shape[n]);
  if (!fits || !array.values.every((value) => Math.abs(Number(value)) <= 1e12)) {
    throw new Error(`the board's ${name} cannot be used`);
  }
  return array.values;
}

/** Whether the board was made from ratings, and not from presence. */
export function isExplicit(config) {
  if (config.feedback !== "explicit" && config.feedback !== "implicit") {
    throw new Error("the board's configuration does not state feedback");
  }
  return config.feedback === "explicit";
}
