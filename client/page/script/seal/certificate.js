// A certificate, recomputed from the releases and the plan that it lists (see common/certificate.py).

import { toHex, utf8 } from "../board/bytes.js";
import { asciiOnly, rawMembers, without } from "../board/raw_json.js";
import { isCertificate } from "./certificate_form.js";
import { epsilonOf, epsilonThroughRenyi, epsilonThroughZcdp, muFor } from "./gaussian.js";
import { beyondThisPage, isClose, isExact, isPrivateNoise } from "./releases.js";
import { participationProblems, releaseProblems, roundProblems, squaredMu } from "./releases.js";
import { sha256 } from "./sha2.js";

const FORMAT = 4;
const NO_FORM = "a member is missing, unknown, of another type than its format has, or out of range";
const TOLERANCE = 1e-9;
const CURVE_DELTAS = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9];

/**
 * Recompute a certificate.
 *
 * Gives `failed` (sentences), `checks` (how many were made), `beyond` (why it cannot be recomputed here, or null),
 * `claim` (what it claims, if that means anything, or null) and `numbers` (what was recomputed, or null). `raw` is the
 * certificate as it stands on the board.
 */
export async function checkedCertificate(certificate, raw) {
  const found = { failed: [], checks: 0, beyond: null, claim: null, numbers: null };
  const check = (passed, sentence) => {
    found.checks++;
    if (!passed) found.failed.push(sentence);
    return passed;
  };
  const other = `its format is ${Number(certificate.format)}, this page reads ${FORMAT}`;
  if (!check(certificate.format === FORMAT, other)) return found;
  if (!check(isCertificate(certificate, raw), NO_FORM)) return found;
  const content = asciiOnly(without(rawMembers(raw), ["digest"]));
  check(toHex(await sha256(utf8(content))) === certificate.digest, "its digest is not that of what it says");
  checkClaim(certificate, check);
  if (!found.failed.length) found.claim = certificate.claim;
  const planned = plannedReleases(certificate.commitment, certificate.claim.adjacency);
  const reason = [...certificate.releases, ...(planned ?? [])].map(beyondThisPage).find((one) => one !== null);
  if (reason !== undefined) {
    found.beyond = `what ${reason} costs follows from loss distributions, which this page does not compute`;
  } else if (!found.failed.length) {
    checkReleases(certificate, planned, check);
    if (!found.failed.length) found.numbers = checkNumbers(certificate, planned, check);
  }
  checkRecord(certificate, check);
  return found;
}

function checkClaim({ claim, commitment, planned }, check) {
  const { rule, plan, adjacency } = commitment;
  const consistent = (rule === "plan") === (plan !== null) && planned === (rule === "plan");
  check(consistent && adjacency === claim.adjacency, "it does not state the plan or the budget that it claims");
}

/** The releases of a plan as Gaussian ones; null where there is no plan. */
function plannedReleases(commitment, adjacency) {
  if (commitment.plan === null) return null;
  return Object.entries(commitment.plan).map(([name, entry]) => {
    const terms = typeof entry === "number" ? { noise_multiplier: entry } : entry;
    return { ...terms, participation: terms.participation ?? undefined, name, adjacency, mechanism: "gaussian" };
  });
}

function checkReleases({ claim, releases, commitment }, planned, check) {
  for (const event of releases) {
    const problems = releaseProblems(event, claim.adjacency);
    check(!problems.length, `release ${event.name}: ${problems.join("; ")}`);
  }
  check(!roundProblems(releases).length, roundProblems(releases).join("; "));
  if (planned === null) {
    const counted = epsilonOf(commitment.delta, Math.sqrt(squaredMu(releases)));
    check(counted <= commitment.epsilon * (1 + TOLERANCE), "its releases count more than its budget");
    return;
  }
  const sound = planned.every((event) => !participationProblems(event, event.adjacency).length);
  check(sound && !roundProblems(planned).length, "its plan is not sound");
  const within = releases.every((event) => isWithin(event, commitment.plan, planned));
  check(within, "a release was not planned, or has less noise than planned");
  check(new Set(releases.map((event) => event.name)).size === releases.length, "a planned release was made twice");
}

function isWithin(event, plan, planned) {
  if (!Object.hasOwn(plan, event.name)) return false;
  const wanted = planned.find(({ name }) => name === event.name);
  const same =
    wanted.participation === undefined || canonical(wanted.participation) === canonical(event.participation);
  return same && event.noise_multiplier >= wanted.noise_multiplier * (1 - TOLERANCE);
}

function canonical(terms) {
  return JSON.stringify(Object.entries(terms ?? {}).sort());
}

function checkNumbers({ claim, commitment, composition, curve, implied, releases, population }, planned, check) {
  const expected = planned === null ? ofBudget(commitment, claim.delta) : ofPlan(planned, claim);
  if (planned !== null) {
    const cost = epsilonOf(commitment.delta, expected.composition.mu);
    check(cost / (1 + TOLERANCE) <= commitment.epsilon * (1 + TOLERANCE), "its plan costs more than its budget");
  }
  const same = (stated, right, where) => {
    for (const [field, value] of Object.entries(right)) {
      const passed = typeof value === "boolean" ? stated?.[field] === value : isClose(stated?.[field], value, TOLERANCE);
      check(passed, `${where}${field} is stated as ${Number(stated?.[field])}, recomputed ${value}`);
    }
  };
  same(composition, expected.composition, "");
  same(implied, expected.implied, "");
  check(curve.length === CURVE_DELTAS.length, "its curve is not complete");
  CURVE_DELTAS.forEach((delta, n) => same(curve[n], { delta, ...expected.at(delta) }, `at delta ${delta}: `));
  check(expected.composition.epsilon <= claim.epsilon * (1 + TOLERANCE), "it claims less than its releases cost");
  if (population !== null) checkPopulation(population, releases, claim, check);
  return expected.composition;
}

function ofPlan(planned, claim) {
  const squared = squaredMu(planned);
  const [mu, rho] = [Math.sqrt(squared), squared / 2];
  const at = (delta) => ({
    epsilon: epsilonOf(delta, mu),
    epsilon_rdp: epsilonThroughRenyi(delta, rho),
    epsilon_zcdp: epsilonThroughZcdp(delta, rho),
  });
  // A rating changed is a removal and an addition where neighbours differ by one user more or less.
  const steps = claim.adjacency === "add-remove" ? 2 : 1;
  return {
    composition: { mu, rho, exact: isExact(planned), ...at(claim.delta) },
    implied: { rating_epsilon: epsilonOf(claim.delta, steps * mu), pair_epsilon: epsilonOf(claim.delta, 2 * mu) },
    at,
  };
}

function ofBudget({ epsilon, delta: fixed, adjacency }, delta) {
  const mu = muFor(epsilon, fixed);
  const rho = (mu * mu) / 2;
  const together = (users, where) => Math.max(users * epsilon, epsilonOf(where, users * mu));
  const at = (where) => ({
    epsilon: together(1, where),
    epsilon_rdp: Math.max(epsilon, epsilonThroughRenyi(where, rho)),
    epsilon_zcdp: Math.max(epsilon, epsilonThroughZcdp(where, rho)),
  });
  return {
    composition: { mu, rho, exact: false, ...at(delta) },
    implied: {
      rating_epsilon: together(adjacency === "add-remove" ? 2 : 1, delta),
      pair_epsilon: together(2, delta),
    },
    at,
  };
}

function checkPopulation(total, releases, claim, check) {
  const own = epsilonOf(total.delta, Math.sqrt(squaredMu(releases)));
  const limits = [own, total.lineage_spent, total.spent, total.committed, total.budget];
  const ordered = limits.slice(1).every((high, n) => limits[n] <= high * (1 + TOLERANCE));
  const within = total.lineage_spent <= (total.lineage_budget ?? total.budget) * (1 + TOLERANCE);
  const same = total.adjacency === claim.adjacency;
  check(same && ordered && within, "the account of its population does not add up");
}

function checkRecord({ releases, noise, private: isPrivate, rounds }, check) {
  const labels = [...new Set(releases.map((event) => String(event.noise)))].sort();
  const booked = releases.length > 0 && releases.every((event) => event.private === true);
  check(
    noise === (labels.join("; ") || "no release yet") && isPrivate === booked,
    "its noise is not what its releases say",
  );
  check(!booked || isPrivateNoise(releases), "noise from a seed is stated as private");
  check(rounds === null || rounds.made + rounds.lost <= rounds.planned, "its rounds do not add up");
}
