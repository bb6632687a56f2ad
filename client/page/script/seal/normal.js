// The normal distribution, to the last digits also far out in its tails.

/**
 * erfc(x) exp(x^2) for x >= 0, which neither overflows nor vanishes.
 *
 * Below 0.5 by the power series of erf. Above by the trapezoidal rule for `x/pi * integral exp(-t^2) / (x^2 + t^2)`,
 * whose error falls as exp(-(pi/h)^2), with the pole at t = ix taken out (Hunter and Regan 1972, Math. Comp. 26).
 */
export function scaledErfc(x) {
  if (x < 0.5) return Math.exp(x * x) * (1 - erfSeries(x));
  const h = 0.5;
  let sum = 1 / (2 * x * x);
  for (let k = 1; k <= 13; k++) sum += Math.exp(-h * h * k * k) / (x * x + h * h * k * k);
  // The pole's residue lies within the strip of the rule only while x < pi / h.
  const pole = x < Math.PI / h ? (2 * Math.exp(x * x)) / (1 - Math.exp((2 * Math.PI * x) / h)) : 0;
  return ((2 * h * x) / Math.PI) * sum + pole;
}

/** erfc(x) for any x. */
export function erfc(x) {
  return x >= 0 ? Math.exp(-x * x) * scaledErfc(x) : 2 - erfc(-x);
}

/** Phi(x): probability below x. */
export function normalBelow(x) {
  return erfc(-x / Math.SQRT2) / 2;
}

/** (1 - Phi(x)) / phi(x) for x >= 0. */
export function millsRatio(x) {
  return Math.sqrt(Math.PI / 2) * scaledErfc(x / Math.SQRT2);
}

function erfSeries(x) {
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= -(x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}
