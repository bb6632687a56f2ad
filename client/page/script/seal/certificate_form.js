// The form of a certificate (see common/certificate/record.py): every member there, each of its type and in its range, and
// no other. What nothing is computed from is held to it too, so that this page refuses what the package refuses.

const [INTEGER, FRACTION] = ["integer", "fraction"];
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(\.\d+)?([eE][-+]?\d+)?/g;

// A form is a function of a value and of how its numbers are written: 5 is not 5.0, which only the text still shows.
const anything = () => true;
const string = (value) => typeof value === "string";
const flag = (value) => typeof value === "boolean";
const number = (value) => typeof value === "number";
const whole = (value, written) => number(value) && written === INTEGER;
const real = (value, written) => number(value) && value < Infinity && written === FRACTION;
const text = (value) => string(value) && value.trim() !== "";
const one = (...names) => (value) => names.includes(value);
const count = (value, written) => whole(value, written) && value > 0 && value < 2 ** 63;
const natural = (value, written) => whole(value, written) && value >= 0;
const positive = (value) => number(value) && value > 0 && value < Infinity;
const atLeastZero = (value, written) => real(value, written) && value >= 0;
const share = (value, written) => real(value, written) && value > 0 && value < 1;
const adjacency = one("add-remove", "replace", "replace-values", "replace-labels");
const orNone = (form) => (value, written) => value === null || form(value, written);
const listOf = (form) => (value, written) => Array.isArray(value) && value.every((each, n) => form(each, written[n]));
const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const tableOf = (form) => (value, written) =>
  isTable(value) && Object.keys(value).every((name) => form(value[name], written[name]));
const table = (members, optional = {}) => {
  const known = { ...members, ...optional };
  return (value, written) =>
    isTable(value) &&
    Object.keys(members).every((name) => Object.hasOwn(value, name)) &&
    Object.keys(value).every((name) => Object.hasOwn(known, name) && known[name](value[name], written[name]));
};
const by = (member, forms) => (value, written) =>
  isTable(value) && Object.hasOwn(forms, value[member]) && forms[value[member]](value, written);

const POINT = { epsilon: real, epsilon_rdp: real, epsilon_zcdp: real };
const OF_ROUND = { kind: string, round: text };
const ofCohort = table({ ...OF_ROUND, cohort: natural, cohorts: count });
const participationForm = by("kind", {
  poisson: table({ ...OF_ROUND, probability: number }),
  "fixed-size": table({ ...OF_ROUND, size: count }),
  "shuffled-cohorts": table({ ...OF_ROUND, cohorts: count }),
  disjoint: (value, written) => ofCohort(value, written) && value.cohort < value.cohorts,
});
const BOOKED = { mechanism: string, name: text, covers: text, adjacency: string, noise_multiplier: positive };
const OF_NOISE = { noise: string, private: flag };
const OPTIONAL = { seed: anything, participation: participationForm, shares: table({ least: count }) };
const LAPLACE = { ...BOOKED, ...OF_NOISE, l1_sensitivity: number, noise_scale: number };
const onGrid = table({ ...LAPLACE, width: whole, grid_step: number, l1_bound: whole }, OPTIONAL);
const releaseForm = by("mechanism", {
  gaussian: table(
    {
      ...BOOKED,
      ...OF_NOISE,
      ...{ rows: count, width: count, layout: one("vector", "symmetric"), grid_step: positive, l2_bound: count },
      ...{ same_sign: flag, l2_sensitivity: number, noise_stddev: number, release_shift: whole },
    },
    OPTIONAL,
  ),
  laplace: (value, written) => table(LAPLACE, OPTIONAL)(value, written) || onGrid(value, written),
  exponential: table(
    { ...BOOKED, ...OF_NOISE, candidates: whole, score_sensitivity: number, score_scale: number },
    OPTIONAL,
  ),
});
const plannedForm = (value, written) =>
  positive(value) || table({ noise_multiplier: positive }, { participation: orNone(participationForm) })(value, written);

const populationForm = table({
  ...{ population: string, head: string, adjacency: string, lineage: string, private: flag, runs: whole, releases: whole },
  ...{ delta: share, budget: real, spent: real, committed: real, lineage_spent: real, lineage_budget: orNone(real) },
});
const certificateForm = table({
  claim: table({ epsilon: atLeastZero, delta: share, adjacency, unit: one("user") }),
  releases: listOf(releaseForm),
  composition: table({ mu: real, rho: real, exact: flag, ...POINT }),
  curve: listOf(table({ delta: real, ...POINT })),
  implied: table({ rating_epsilon: real, pair_epsilon: real }),
  ...{ noise: string, private: flag, dataset: string, software: string, digest: string, planned: flag },
  ...{ trust: listOf(string), assumptions: listOf(string), statements: listOf(string) },
  ...{ board_digest: orNone(string), ledger_head: orNone(string), format: whole },
  commitment: table({
    ...{ rule: one("plan", "budget-filter"), adjacency, delta: share, plan: orNone(tableOf(plannedForm)) },
    epsilon: (value, written) => atLeastZero(value, written) && value > 0,
  }),
  population: orNone(populationForm),
  rounds: orNone(table({ planned: natural, made: natural, lost: natural })),
});

/** Whether this has the form of a certificate; `raw` is its text, without spaces and with each member once. */
export function isCertificate(value, raw) {
  const text = raw.replace(TOKEN, (token, fraction, exponent) =>
    token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : `"${fraction || exponent ? FRACTION : INTEGER}"`,
  );
  const written = JSON.parse(text);
  return JSON.stringify(written).length === text.length && certificateForm(value, written);
}
