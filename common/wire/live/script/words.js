// Numbers as people read them.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** An epsilon: four digits, never more than was meant. */
export function epsilonOf(value) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && value < 0.0005) return value < 1e-9 ? "0" : value.toExponential(1);
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

/** A small probability, as it was set. */
export function deltaOf(value) {
  return value < 0.001 ? value.toExponential().replace("e-", "\u00a0×\u00a010⁻").replace(/⁻(\d+)$/, (_, digits) => `⁻${raised(digits)}`) : String(value);
}

/** Bytes. */
export function bytesOf(value) {
  if (value === null || value === undefined) return "–";
  let [left, unit] = [value, 0];
  while (left >= 1000 && unit < UNITS.length - 1) [left, unit] = [left / 1000, unit + 1];
  return `${unit === 0 || left >= 100 ? left.toFixed(0) : left.toFixed(1)} ${UNITS[unit]}`;
}

/** Seconds. */
export function secondsOf(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 90) return `${value.toFixed(0)} s`;
  const minutes = Math.round(value / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** How many, with the thing. */
export function countOf(number, thing) {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}

function raised(digits) {
  return [...digits].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
}
