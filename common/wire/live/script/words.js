// Numbers as people read them.

const DIGITS = 5;
const HAIR = 1e-6;
const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** An epsilon that is spent or costs: five digits, rounded up, so that none is shown smaller than it is. */
export function epsilonOf(value) {
  return digitsOf(value, (scaled) => Math.ceil(scaled - HAIR));
}

/** An epsilon that is left: rounded down. */
export function leftOf(value) {
  return digitsOf(value, (scaled) => Math.floor(scaled + HAIR));
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

function digitsOf(value, whole) {
  if (value === null || value === undefined) return "–";
  if (value < 1e-9) return "0";
  const scale = 10 ** (DIGITS - 1 - Math.floor(Math.log10(value)));
  const shown = Number((whole(value * scale) / scale).toPrecision(DIGITS));
  return shown < 0.001 ? shown.toExponential() : String(shown);
}
