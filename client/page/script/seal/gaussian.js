// What Gaussian releases cost: the closed forms of common/privacy/accounting (exact.py, conversions.py), once more.

const ULP = 2 ** -52;
const PRECISION = 1e-13;
const FAR = 37.5;

/** Delta of a mu-GDP mechanism at epsilon; never below the exact value (Balle and Wang 2018, theorem 8). */
export function deltaOf(epsilon, mu) {
  if (mu === 0) return 0;
  const [below, above] = [epsilon / mu - mu / 2, epsilon / mu + mu / 2];
  if (Math.abs(below) > FAR) return below > 0 ? 0 : 1;
  const density = Math.exp(-0.5 * below * below) / Math.sqrt(2 * Math.PI);
  const lost = density * millsRatio(above);
  const kept = below >= 0 ? density * millsRatio(below) : normalBelow(-below);
  const spread = 1 + below * below + Math.abs(below) * above;
  const difference = Math.max(kept - lost, 0);
  const margin = 8 * ULP * (kept + lost * (below >= 0 ? 1 : spread)) + 8 * ULP * spread * difference;
  return Math.min(difference + margin, 1);
}

/** Smallest epsilon of a mu-GDP mechanism at delta. */
export function epsilonOf(delta, mu) {
  if (deltaOf(0, mu) <= delta) return 0;
  let [low, high] = [0, (mu * mu) / 2 + mu * Math.sqrt(2 * Math.log(1 / delta)) + mu];
  while (high - low > PRECISION * high) {
    const middle = (low + high) / 2;
    if (deltaOf(middle, mu) <= delta) high = middle;
    else low = middle;
  }
  return high;
}

/** Largest mu whose curve passes through or below (epsilon, delta). */
export function muFor(epsilon, delta) {
  let [low, high] = [0, 1];
  while (deltaOf(epsilon, high) <= delta) [low, high] = [high, 2 * high];
  while (high - low > PRECISION * high) {
    const middle = (low + high) / 2;
    if (deltaOf(epsilon, middle) <= delta) low = middle;
    else high = middle;
  }
  let shrink = 10 * PRECISION;
  while (epsilonOf(delta, low * (1 - shrink)) > epsilon) shrink *= 2;
  return low * (1 - shrink);
}

/** Epsilon that rho-zCDP implies (Bun and Steinke 2016, proposition 1.3). */
export function epsilonThroughZcdp(delta, rho) {
  return rho + 2 * Math.sqrt(rho * Math.log(1 / delta));
}

/** Epsilon that the Renyi orders imply, at the best of them (Canonne, Kamath and Steinke 2020, proposition 12). */
export function epsilonThroughRenyi(delta, rho) {
  if (rho === 0) return 0;
  let [low, high] = [0, Math.min(1 / delta - 1, Math.sqrt(Math.log(1 / delta) / rho))];
  while (high - low > 1e-15 * high) {
    const middle = (low + high) / 2;
    if (!(low < middle && middle < high)) break;
    if (rho * middle * middle < -Math.log(delta) - Math.log1p(middle)) low = middle;
    else high = middle;
  }
  const order = 1 + high;
  return Math.max(order * rho + Math.log(high / order) - Math.log(delta * order) / high, 0);
}

/** How often somebody is right at most who bets on whether you took part, when a coin decided it: Phi(mu / 2). */
export function rightBetsOfMu(mu) {
  return normalBelow(mu / 2);
}

/** The same from (epsilon, delta) alone. */
export function rightBetsOfEpsilon(epsilon, delta) {
  return (1 + delta * Math.exp(-epsilon)) / (1 + Math.exp(-epsilon));
}

// The normal distribution, to the last digits also far out in its tails.

/**
 * erfc(x) exp(x^2) for x >= 0, which neither overflows nor vanishes.
 *
 * Below 0.5 by the power series of erf. Above by the trapezoidal rule for `x/pi * integral exp(-t^2) / (x^2 + t^2)`,
 * whose error falls as exp(-(pi/h)^2), with the pole at t = ix taken out (Hunter and Regan 1972, Math. Comp. 26).
 */
function scaledErfc(x) {
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
function normalBelow(x) {
  return erfc(-x / Math.SQRT2) / 2;
}

/** (1 - Phi(x)) / phi(x) for x >= 0. */
function millsRatio(x) {
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
