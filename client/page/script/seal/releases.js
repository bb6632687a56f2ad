// Releases as a certificate lists them: whether each is sound, and what they cost together. The rules are those of
// common/privacy/events.py and grouping.py, for the releases whose cost has a closed form: Gaussian ones of everybody,
// or of disjoint cohorts. Of others this page says that it cannot recompute them. All of them have their form already.

const PRODUCT_TOLERANCE = 1e-12;
const KEPT_BITS = 20;
const SECURE = "secure: AES-256 in counter mode, keys from the operating system";

/** Whether two numbers agree to a relative tolerance. */
export function isClose(one, other, tolerance) {
  if (one === other) return true;
  if (!Number.isFinite(one) || !Number.isFinite(other)) return false;
  return Math.abs(one - other) <= tolerance * Math.max(Math.abs(one), Math.abs(other));
}

/** Why the cost of a release has no closed form here; null where it has one. */
export function beyondThisPage(event) {
  if (event.mechanism !== "gaussian") return `${event.mechanism} noise`;
  if (event.participation?.kind === "poisson") return "a random choice of who takes part";
  return null;
}

/** What is wrong with a Gaussian release of this adjacency; empty for a sound one. */
export function releaseProblems(event, adjacency) {
  const factor = adjacency === "add-remove" ? 1 : event.same_sign ? Math.SQRT2 : 2;
  const sensitivity = event.l2_bound * factor;
  const stddev = event.noise_multiplier * sensitivity;
  const shift = Math.max(0, Math.floor(Math.log2(event.noise_stddev)) - KEPT_BITS);
  const rank = (Math.sqrt(8 * event.width + 1) - 1) / 2;
  const rules = {
    [`its adjacency is ${event.adjacency}, the claim's ${adjacency}`]: event.adjacency === adjacency,
    "its width is that of no symmetric matrix": event.layout === "vector" || Number.isInteger(rank),
    "its sensitivity does not follow from its bound": isClose(event.l2_sensitivity, sensitivity, PRODUCT_TOLERANCE),
    "its noise does not follow from its sensitivity": isClose(event.noise_stddev, stddev, PRODUCT_TOLERANCE),
    "its rounding does not follow from its noise": event.release_shift === shift,
  };
  const broken = Object.keys(rules).filter((problem) => !rules[problem]);
  return [...participationProblems(event, adjacency), ...broken, ...noiseProblems(event)];
}

/** What is wrong with who takes part in a release; all do where it does not say. */
export function participationProblems({ participation: stated }, adjacency) {
  const counted = !stated || stated.kind === "disjoint" || adjacency !== "add-remove";
  return counted ? [] : [`participation ${stated.kind} is not accounted under add-remove`];
}

/** Which rounds cannot be one round: other terms for some releases, or one release twice. */
export function roundProblems(events) {
  return [...disjointRounds(events)].flatMap(([name, ofRound]) => {
    const alike = ofRound.every((event) => event.participation.cohorts === ofRound[0].participation.cohorts);
    const once = new Set(ofRound.map((event) => event.name)).size === ofRound.length;
    return alike && once ? [] : [`the releases of round ${name} do not belong together`];
  });
}

/** Sum of 1 / z^2 over the releases that the most exposed user is part of: of disjoint cohorts the costliest. */
export function squaredMu(events) {
  const cost = (all) => all.reduce((sum, { noise_multiplier: z }) => sum + 1 / (z * z), 0);
  const cohort = ({ participation: stated }) => stated.cohort;
  const costliest = (ofRound) =>
    Math.max(...ofRound.map((one) => cost(ofRound.filter((other) => cohort(other) === cohort(one)))));
  const rounds = [...disjointRounds(events).values()];
  return cost(events.filter((event) => !isDisjoint(event))) + rounds.reduce((sum, each) => sum + costliest(each), 0);
}

const isDisjoint = ({ participation: stated }) => stated?.kind === "disjoint";

function disjointRounds(events) {
  const rounds = new Map();
  for (const event of events.filter(isDisjoint)) {
    const { round } = event.participation;
    rounds.set(round, [...(rounds.get(round) ?? []), event]);
  }
  return rounds;
}

/** Whether mu describes the releases exactly, and is no mere bound. */
export function isExact(events) {
  return events.every(({ participation: stated }) => !stated || stated.kind === "disjoint");
}

/** What is wrong with what a release states about its noise: only a source that is known, and no seed, is private. */
export function noiseProblems(event) {
  const { noise, private: isPrivate, shares } = event;
  const ofShares = "shares of the clients";
  let label = noise;
  if (shares !== undefined) {
    const start = `${ofShares}, at least ${shares?.least} of them honest, each `;
    if (!noise.startsWith(start)) return ["it states noise shares, and its noise source other ones or none"];
    label = noise.slice(start.length);
  } else if (noise.startsWith(ofShares)) {
    return ["its noise source states shares, and the release none"];
  }
  const known = !("seed" in event) && label === SECURE;
  return isPrivate && !known ? ["noise from a seed, or from a source that nobody knows, is stated as private"] : [];
}

/** Whether the noise of every release is such that no seed reproduces it. */
export function isPrivateNoise(events) {
  return events.length > 0 && events.every((event) => event.private === true && !noiseProblems(event).length);
}
