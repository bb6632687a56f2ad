import copy
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from fedboard.common.certificate import Certificate, Guarantee, certify
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import (
    compose,
    delta_of,
    epsilon_of,
    epsilon_of_events,
    epsilon_when_adaptive,
    mu_for,
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.members import PopulationTotal
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.privacy.releases.pure import LaplaceRelease
from tests.common.certificates import ACCOUNT, certificate_of
from tests.common.privacy.commitments import plan_of, planned, unplanned

MULTIPLIERS = (12.0, 9.0, 15.0)
POPULATION = PopulationTotal(
    population="12" * 16,
    head="ef" * 32,
    delta=1e-6,
    adjacency="replace",
    budget=5.0,
    spent=2.3,
    committed=3.1,
    runs=3,
    releases=20,
    private=True,
    lineage="34" * 16,
    lineage_spent=1.0,
    lineage_budget=2.0,
)


def make_events(noise=SecureNoise(), adjacency=Adjacency.REPLACE):  # noqa: B008 (immutable)
    return [
        {
            **GaussianRelease(
                name=f"items-{number}",
                rows=20,
                width=6,
                layout="symmetric",
                grid_step=2.0**-38,
                l2_bound=2**38,
                same_sign=True,
                adjacency=adjacency,
                noise_multiplier=z,
                covers="sum of weighted outer products",
            ).event(),
            **noise.describe(),
        }
        for number, z in enumerate(MULTIPLIERS)
    ]


def make_certificate(events=None, **changes):
    releases = make_events() if events is None else events
    claim = Guarantee(epsilon=1.0, delta=1e-5, adjacency="replace")
    adjacency = releases[0]["adjacency"] if releases else "replace"
    options = {
        "claim": claim,
        "commitment": planned(releases, epsilon=2.0, adjacency=adjacency),
        "trust": ["The server sees each contribution and forgets it."],
        "assumptions": ["Each device takes part once in a release."],
        "dataset": "ratings from 0.5 to 5",
        "board_digest": "ab" * 32,
        "ledger_head": "cd" * 32,
        "population": POPULATION,
        **changes,
    }
    return certify(releases, **options)


def unplanned_certificate(events=None, **changes):
    """Of a ledger that had a budget and no plan; it claims the budget."""
    terms = unplanned(epsilon=1.0, adjacency="replace")
    return make_certificate(events, **{"commitment": terms, "claim": None, **changes})


def failed(plain):
    try:
        Certificate.from_dict(plain)
    except InputError:
        return {"no certificate"}
    return {finding.check for finding in Certificate.from_dict(plain).verify() if not finding.passed}


def resealed(plain):
    content = {key: value for key, value in plain.items() if key != "digest"}
    return {**content, "digest": digest(content)}


def leaves(value, path=()):
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for position in range(len(value)):
            yield from leaves(value[position], (*path, position))
    else:
        yield path


def mutated(plain, path):
    plain = copy.deepcopy(plain)
    place = plain
    for key in path[:-1]:
        place = place[key]
    value = place[path[-1]]
    if isinstance(value, bool):
        place[path[-1]] = not value
    elif isinstance(value, int):
        place[path[-1]] = value + 1
    elif isinstance(value, float):
        place[path[-1]] = value * 1.01
    else:
        place[path[-1]] = f"{value} "
    return plain


PLAIN = json.loads(make_certificate().to_json())
UNPLANNED = json.loads(unplanned_certificate().to_json())
KINDS = {"planned": PLAIN, "unplanned": UNPLANNED}


def test_a_certificate_states_the_exact_composition():
    certificate = make_certificate()
    mu = compose(MULTIPLIERS)

    assert certificate.composition.mu == mu
    assert certificate.composition.rho == pytest.approx(sum(0.5 / z**2 for z in MULTIPLIERS))
    assert certificate.composition.epsilon == epsilon_of(1e-5, mu=mu)
    assert certificate.holds
    for point in certificate.curve:
        assert delta_of(point.epsilon, mu=mu) == pytest.approx(point.delta, rel=1e-6)


def test_json_and_back_is_the_same_certificate_and_holds():
    certificate = make_certificate()

    assert Certificate.from_json(certificate.to_json()) == certificate
    assert Certificate.from_dict(certificate.to_dict()).holds
    assert json.loads(certificate.to_json()) == json.loads(json.dumps(certificate.to_dict()))


EDITS = [(name, path) for name, plain in KINDS.items() for path in sorted(leaves(plain), key=str)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "path"), EDITS, ids=lambda part: str(part))
def test_an_edit_of_any_field_is_found(kind, path):
    assert failed(mutated(KINDS[kind], path))


@pytest.mark.parametrize(
    "impossible",
    [
        {"lineage_spent": 0.1},
        {"spent": 0.9},
        {"committed": 2.2},
        {"budget": 3.0},
        {"lineage_budget": 0.9},
        {"adjacency": "add-remove"},
        {"delta": 0.0},
    ],
)
def test_a_total_of_the_population_that_cannot_be_is_refused(impossible):
    with pytest.raises(PrivacyError, match="population"):
        make_certificate(population=replace(POPULATION, **impossible))


def test_a_certificate_says_what_all_runs_on_the_population_cost():
    told = make_certificate().statements[-2]

    assert "(account 12121212) are promised epsilon 5 at delta 1e-06: the account refuses more" in told
    assert "The 3 runs so far count 2.3 of it (3.1 with what is reserved)" in told
    assert "The lineage of this board is promised epsilon 2 in the same way and counts 1." in told
    unlimited = make_certificate(population=replace(POPULATION, lineage_budget=None)).statements[-2]
    assert "has no limit of its own and counts 1." in unlimited
    assert "simulation" in make_certificate(population=replace(POPULATION, private=False)).statements[-2]
    alone = make_certificate(population=None)
    assert alone.holds
    assert "population" not in " ".join(alone.statements)


FREE = {
    "assumptions",
    "board_digest",
    "covers",
    "dataset",
    "digest",
    "grid_step",
    "head",
    "ledger_head",
    "lineage",
}
FREE |= {"name", "population", "releases", "rows", "software", "trust"}
"""What follows from nothing else that a certificate states, and a plan's terms, from which only the budget is."""
RECOMPUTED = [
    (kind, path)
    for kind, path in EDITS
    if next(word for word in reversed(path) if isinstance(word, str)) not in FREE
    and not (kind == "planned" and path[0] == "commitment" and path[1] in ("delta", "epsilon"))
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "path"), RECOMPUTED, ids=str)
def test_a_forger_who_recomputes_the_digest_is_still_found(kind, path):
    found = failed(resealed(mutated(KINDS[kind], path)))

    assert found
    assert "digest" not in found


def test_dropping_a_release_or_a_point_of_the_curve_is_found():
    for field in ("releases", "curve", "statements"):
        shorter = {**PLAIN, field: PLAIN[field][:-1]}
        assert failed(resealed(shorter))


def test_a_smaller_claim_than_the_releases_cost_is_found():
    forged = copy.deepcopy(PLAIN)
    forged["claim"]["epsilon"] = 0.5
    forged["statements"][0] = forged["statements"][0].replace("(1.0,", "(0.5,")

    assert failed(resealed(forged)) == {"claim"}


NO_PLANS = (
    *({"items-0": z} for z in (0.0, -1.0, True, "12", None, {}, [], 0.1)),
    {"items-0": {"noise_multiplier": 12.0, "weight": 2}},
    {"items-0": {"noise_multiplier": 12.0, "participation": 3}},
    {"items-0": {"noise_multiplier": 12.0, "participation": {"kind": "poisson"}}},
    None,
)
SENSELESS = [
    *(("releases", "noise_multiplier", z, "release 'items-0'") for z in (0.0, None, "inf")),
    *(("releases", "l2_bound", bound, "release 'items-0'") for bound in (None, 0)),
    ("releases", "noise_stddev", 0.0, "release 'items-0'"),
    ("releases", "adjacency", "both", "release 'items-0'"),
    ("releases", "mechanism", "none", "release 'items-0'"),
    ("releases", "private", None, "release 'items-0'"),
    ("claim", "epsilon", -1.0, "claimed epsilon"),
    *(("claim", "delta", delta, "claimed delta") for delta in (0.0, 1.0)),
    ("claim", "unit", "rating", "claimed unit"),
    *(("commitment", "rule", rule, "commitment") for rule in ("odometer", "budget-filter")),
    *(("commitment", "epsilon", epsilon, "commitment") for epsilon in (0.0, 1e-3)),
    ("commitment", "delta", 1.0, "commitment"),
    *(("commitment", "adjacency", adjacency, "commitment") for adjacency in ("both", "add-remove")),
    *(("commitment", "plan", plan, "commitment") for plan in NO_PLANS),
]


@pytest.mark.parametrize(("part", "field", "value", "check"), SENSELESS)
def test_what_makes_no_sense_is_a_failed_finding_not_a_crash(part, field, value, check):
    """A release without bound or noise, a claim without meaning, terms and plans that are none."""
    forged = copy.deepcopy(PLAIN)
    place = forged[part][0] if part == "releases" else forged[part]
    place[field] = value

    assert check in failed(resealed(forged))


def test_numbers_that_are_not_finite_are_a_failed_finding_not_a_crash():
    certificate = make_certificate()
    object.__setattr__(certificate.composition, "mu", float("nan"))

    found = {finding.check for finding in certificate.verify() if not finding.passed}

    assert {"mu", "digest"} <= found


def test_events_that_do_not_support_the_claim_are_not_certified():
    claim = Guarantee(epsilon=0.1, delta=1e-5, adjacency="replace")

    with pytest.raises(PrivacyError, match=r"0\.1 is claimed"):
        make_certificate(claim=claim)
    with pytest.raises(PrivacyError, match="the claim's is 'add-remove'"):
        make_certificate(claim=Guarantee(epsilon=1.0, delta=1e-5, adjacency="add-remove"))
    with pytest.raises(PrivacyError, match="claimed adjacency: must be one of"):
        make_certificate(claim=Guarantee(epsilon=1.0, delta=1e-5, adjacency="none"))
    with pytest.raises(PrivacyError, match="noise_multiplier"):
        make_certificate([{**make_events()[0], "noise_multiplier": float("nan")}])
    with pytest.raises(PrivacyError, match="noise source is not stated"):
        make_certificate([{k: v for k, v in make_events()[0].items() if k != "noise"}])


def test_seeded_noise_is_certified_as_not_private():
    certificate = make_certificate([*make_events(), {**make_events(SeededNoise(1))[0], "name": "seeded"}])

    assert not certificate.private
    assert "simulation only, not private" in certificate.noise
    assert "not a private release" in certificate.statements[-1]
    assert certificate.holds


def test_nothing_released_costs_nothing():
    certificate = make_certificate([], claim=Guarantee(epsilon=0.0, delta=1e-5, adjacency="replace"))
    waiting = unplanned_certificate([])

    assert certificate.holds
    assert certificate.composition.epsilon == 0.0  # nothing is planned either
    assert waiting.holds
    assert waiting.claim.epsilon == 1.0  # whoever makes the first release is held to the budget alone


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"claim": 3}', "no JSON"])
def test_what_is_no_certificate_is_refused(text):
    with pytest.raises(InputError, match="not a certificate"):
        Certificate.from_json(text)
    with pytest.raises(InputError, match="not a certificate"):
        Certificate.from_dict({"claim": 3})


def verified_without(packages, certificate):
    """What a fresh process says of a certificate where these packages are not installed."""
    missing = "".join(f"sys.modules[{name!r}] = None\n" for name in packages)
    code = f"import sys\n{missing}from fedboard.common.certificate import Certificate\n"
    code += "assert Certificate.from_json(sys.stdin.read()).holds\n"
    return subprocess.run(
        [sys.executable, "-c", code], input=certificate.to_json(), text=True, capture_output=True, check=False
    )


@pytest.mark.slow
def test_verification_needs_the_base_install_only():
    done = verified_without(("dp_accounting", "cryptography", "numba", "pyarrow"), make_certificate())

    assert done.returncode == 0, done.stderr


def sampled_events(probability=0.3, rounds=("round-1", "round-1", "round-2")):
    events = make_events(adjacency=Adjacency.ADD_REMOVE)
    stated = {"kind": "poisson", "probability": probability}
    return [
        {**event, "participation": {**stated, "round": name}}
        for event, name in zip(events, rounds, strict=True)
    ]


def sampled_certificate(events=None):
    claim = Guarantee(epsilon=1.0, delta=1e-5, adjacency="add-remove")
    population = replace(POPULATION, adjacency="add-remove")
    return make_certificate(
        sampled_events() if events is None else events, claim=claim, population=population
    )


@pytest.mark.slow
def test_a_sampled_run_is_certified_by_loss_distributions_and_says_that_mu_is_a_bound():
    certificate = sampled_certificate()
    everybody = epsilon_of(1e-5, mu=compose(MULTIPLIERS))

    assert certificate.holds
    assert not certificate.composition.exact
    assert certificate.composition.epsilon == epsilon_of_events(certificate.releases, 1e-5) < 0.5 * everybody
    assert certificate.composition.mu == compose(MULTIPLIERS)
    text = " ".join(certificate.statements)
    assert "at most" in text
    assert "upper bounds" in text
    assert "exactly" not in text
    assert all(point.epsilon < point.epsilon_rdp for point in certificate.curve)


def test_all_of_gaussians_with_full_participation_is_called_exact():
    certificate = make_certificate()

    assert certificate.composition.exact
    assert "are exactly" in certificate.statements[2]
    assert "upper bounds" not in " ".join(certificate.statements)
    for point in (certificate.composition, *certificate.curve):
        assert point.epsilon < point.epsilon_rdp < point.epsilon_zcdp


@pytest.mark.slow
def test_more_amplification_than_the_releases_state_is_found():
    plain = sampled_certificate().to_dict()
    for event in plain["releases"]:
        event["participation"]["probability"] = 0.2

    assert "plan" in failed(resealed(plain))
    for entry in plain["commitment"]["plan"].values():
        entry["participation"]["probability"] = 0.2
    assert {"epsilon", "rating_epsilon"} <= failed(resealed(plain))


@pytest.mark.slow
@pytest.mark.parametrize(("error", "holds"), [(5e-8, True), (-5e-8, True), (3e-7, False), (-3e-7, False)])
def test_numbers_of_loss_distributions_may_differ_by_the_rounding_of_another_machine(error, holds):
    plain = sampled_certificate().to_dict()
    plain["curve"][-1]["epsilon"] *= 1 + error

    assert failed(resealed(plain)) == (set() if holds else {"curve at 1e-09: epsilon"})


@pytest.mark.slow
def test_rounds_that_contradict_themselves_are_a_failed_finding_not_a_crash():
    plain = sampled_certificate().to_dict()
    plain["releases"][0]["participation"]["probability"] = 0.2

    assert failed(resealed(plain)) == {"rounds"}
    with pytest.raises(PrivacyError, match="rounds: the releases of round 'round-1' do not state the same"):
        sampled_certificate([*sampled_events()[:1], *sampled_events(0.2)[1:]])


@pytest.mark.slow
def test_what_is_implied_for_ratings_and_pairs_is_stated():
    replaced, sampled = make_certificate(), sampled_certificate()

    assert replaced.implied.rating_epsilon == replaced.composition.epsilon
    assert sampled.implied.rating_epsilon > sampled.composition.epsilon
    for certificate in (replaced, sampled):
        assert certificate.implied.pair_epsilon > certificate.composition.epsilon
        assert repr(certificate.implied.rating_epsilon) in " ".join(certificate.statements)


@pytest.mark.parametrize("other", [1, 2, 3, 5])
def test_a_certificate_of_another_format_is_named_as_such(other):
    wrong = {key: value for key, value in PLAIN.items() if key != "implied"} | {"format": other}

    for read in (Certificate.from_dict, lambda plain: Certificate.from_json(json.dumps(plain))):
        with pytest.raises(InputError, match=f"format {other}; this version reads format 4"):
            read(wrong)
        with pytest.raises(InputError, match=f"format {other}; this version reads format 4"):
            read(PLAIN | {"format": other})


def questions(noise=SecureNoise()):  # noqa: B008 (immutable)
    return [
        {
            **LaplaceRelease(
                name=f"question-{number}",
                width=1,
                grid_step=1.0,
                l1_bound=1000,
                adjacency=Adjacency.ADD_REMOVE,
                noise_multiplier=5.0,
                covers="a sum",
            ).event(),
            **noise.describe(),
        }
        for number in range(20)
    ]


ASKED = unplanned(epsilon=5.0)


def test_without_a_plan_the_budget_is_claimed_and_not_what_was_spent():
    certificate = make_certificate(questions(), commitment=ASKED, claim=None, population=None)

    assert certificate.holds
    assert not certificate.planned
    assert certificate.claim == Guarantee(epsilon=5.0, delta=1e-5, adjacency="add-remove")
    assert certificate.composition.epsilon == 5.0  # the questions add up to 4
    assert certificate.composition.mu == mu_for(5.0, 1e-5)
    assert not certificate.composition.exact
    assert certificate.composition.epsilon_rdp > 5.0
    assert certificate.implied.pair_epsilon == certificate.implied.rating_epsilon >= 10.0
    for point in certificate.curve:
        assert point.epsilon >= 5.0
        assert point.epsilon == max(5.0, epsilon_of(point.delta, mu=mu_for(5.0, 1e-5)))
    assert "the budget is claimed, epsilon 5.0 at delta 1e-05" in certificate.statements[2]
    assert "one could stop where the outcomes suit" in certificate.statements[2]


@pytest.mark.parametrize("events", [questions, lambda: make_events(adjacency=Adjacency.ADD_REMOVE)])
def test_a_claim_of_what_was_spent_is_refused_without_a_plan(events):
    spent = epsilon_when_adaptive(events(), 1e-5)
    claim = Guarantee(epsilon=spent * (1 + 1e-6), delta=1e-5, adjacency="add-remove")
    honest = make_certificate(events(), commitment=ASKED, claim=None, population=None).to_dict()

    with pytest.raises(PrivacyError, match="without a plan only the budget is proven"):
        make_certificate(events(), commitment=ASKED, claim=claim, population=None)
    forged = {**honest, "claim": {**honest["claim"], "epsilon": claim.epsilon}}
    assert "claim" in failed(resealed(forged))
    smaller = {**honest["commitment"], "epsilon": spent * (1 - 1e-6)}
    assert "budget" in failed(resealed({**honest, "commitment": smaller}))


def test_a_claim_at_another_delta_is_the_budget_curve_there():
    at = Guarantee(epsilon=epsilon_of(1e-7, mu=mu_for(5.0, 1e-5)), delta=1e-7, adjacency="add-remove")

    assert make_certificate(questions(), commitment=ASKED, claim=at, population=None).holds
    # More delta buys nothing: a run of pure releases may lose all of epsilon for certain.
    less = replace(at, delta=1e-3, epsilon=4.9)
    assert epsilon_of(1e-3, mu=mu_for(5.0, 1e-5)) < 4.9
    with pytest.raises(PrivacyError, match="only the budget is proven"):
        make_certificate(questions(), commitment=ASKED, claim=less, population=None)


def test_a_run_that_is_stopped_claims_its_whole_plan():
    plan = plan_of(make_events())
    whole = make_certificate()
    terms = replace(planned(make_events(), adjacency="replace"), plan=plan)

    for made in range(4):
        certificate = make_certificate(make_events()[:made], commitment=terms, claim=None)
        assert certificate.holds
        assert certificate.claim.epsilon == whole.composition.epsilon
        assert (certificate.composition, certificate.curve) == (whole.composition, whole.curve)
        assert certificate.implied == whole.implied
        assert f"{made} of 3 are made so far" in certificate.statements[3]


def test_a_claim_of_a_part_of_the_plan_is_found():
    terms = planned(make_events(), adjacency="replace")
    part = make_certificate(make_events()[:2], claim=None, commitment=terms).to_dict()
    spent = epsilon_of(1e-5, mu=compose(MULTIPLIERS[:2]))

    with pytest.raises(PrivacyError, match="the releases cost"):
        make_certificate(make_events()[:2], commitment=terms, claim=replace(whole_claim(), epsilon=spent))
    shorter = {name: z for name, z in terms.plan.items() if name != "items-1"}
    assert "plan" in failed(resealed({**part, "commitment": {**part["commitment"], "plan": shorter}}))
    noisier = {**terms.plan, "items-2": 1e3}
    assert {"mu", "epsilon"} <= failed(
        resealed({**part, "commitment": {**part["commitment"], "plan": noisier}})
    )


def whole_claim():
    return make_certificate().claim


def test_a_certificate_without_terms_is_refused():
    assert "no certificate" in failed(resealed({**PLAIN, "commitment": None}))
    assert "commitment" in failed(resealed({**PLAIN, "planned": False}))
    assert "commitment" in failed(resealed({**UNPLANNED, "planned": True}))


def test_a_plan_that_is_not_the_ledgers_is_found():
    certificate = make_certificate()

    assert all(finding.passed for finding in certificate.verify(plan=plan_of(make_events())))
    for other in ({}, {**plan_of(make_events()), "items-0": 12.5}, {"items-0": 12.0}):
        assert not all(finding.passed for finding in certificate.verify(plan=other))
    with_plan = unplanned_certificate().verify(plan=plan_of(make_events()))
    assert {finding.check for finding in with_plan if not finding.passed} == {"plan"}


def test_a_planned_release_that_was_made_twice_is_found():
    terms = planned(make_events(), adjacency="replace")

    with pytest.raises(PrivacyError, match="more than once"):
        make_certificate([*make_events(), make_events()[0]], commitment=terms)


@pytest.mark.slow
def test_without_the_accounting_library_a_sampled_certificate_is_not_guessed():
    done = verified_without(("dp_accounting",), sampled_certificate())

    assert "needs dp-accounting: run pip install 'fedboard[pld]'" in done.stderr
    assert done.returncode != 0


def test_a_certificate_of_no_release_warns_of_no_seed():
    """Board 0 of a run with secure noise: nothing was released, so there is no noise that a seed reproduces."""
    empty = make_certificate([], population=None)

    assert empty.statements[-1] == "Noise: no release yet."
    assert empty.holds


@pytest.mark.parametrize(
    "place", ["", "claim", "commitment", "composition", "rounds", "population", "implied"]
)
def test_a_member_that_nobody_knows_or_that_is_missing_is_refused(place: str) -> None:
    """Also where the digest does not cover it: a member is never passed over."""
    plain = json.loads(certificate_of(population=ACCOUNT).to_json())
    of_place = plain[place] if place else plain
    of_place["unknown"] = 1

    with pytest.raises(InputError, match="unknown is a member that"):
        Certificate.from_dict(plain)
    del of_place["unknown"], of_place[min(of_place)]
    with pytest.raises(InputError, match="not a certificate"):
        Certificate.from_dict(plain)


def test_an_unknown_member_of_a_release_is_a_failed_check() -> None:
    plain = json.loads(certificate_of().to_json())
    plain["releases"][0]["unknown"] = 1

    failed = [one for one in Certificate.from_dict(resealed(plain)).verify() if not one.passed]

    assert [one.detail for one in failed] == ["it has unknown members: unknown"]
