import copy
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from fedboard.common.certificate import Certificate, Guarantee, certify
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, delta_of, epsilon_of, epsilon_of_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.population_total import PopulationTotal
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.laplace import LaplaceRelease
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise

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
    options = {
        "claim": Guarantee(epsilon=1.0, delta=1e-5, adjacency="replace"),
        "trust": ["The server sees each contribution and forgets it."],
        "assumptions": ["Each device takes part once in a release."],
        "dataset": "ratings from 0.5 to 5",
        "board_digest": "ab" * 32,
        "ledger_head": "cd" * 32,
        "population": POPULATION,
        **changes,
    }
    return certify(make_events() if events is None else events, **options)


def failed(plain):
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


@pytest.mark.parametrize("path", sorted(leaves(PLAIN), key=str), ids=lambda path: "/".join(map(str, path)))
def test_an_edit_of_any_field_is_found(path):
    assert failed(mutated(PLAIN, path))


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

    assert "All 3 runs on this population (account 12121212) have spent epsilon 2.3 (3.1 with what is" in told
    assert "of 5 at delta 1e-06; the lineage of this board 1 of 2." in told
    assert "simulation" in make_certificate(population=replace(POPULATION, private=False)).statements[-2]
    alone = make_certificate(population=None)
    assert alone.holds
    assert "population" not in " ".join(alone.statements)


RECOMPUTED = [
    ("claim", "epsilon"),
    ("claim", "delta"),
    ("claim", "adjacency"),
    ("claim", "unit"),
    ("composition", "mu"),
    ("composition", "rho"),
    ("composition", "exact"),
    ("composition", "epsilon"),
    ("composition", "epsilon_rdp"),
    ("composition", "epsilon_zcdp"),
    ("implied", "rating_epsilon"),
    ("implied", "pair_epsilon"),
    ("curve", 3, "epsilon_rdp"),
    ("curve", 3, "epsilon_zcdp"),
    ("curve", 3, "epsilon"),
    ("curve", 3, "delta"),
    ("releases", 1, "l2_bound"),
    ("releases", 1, "l2_sensitivity"),
    ("releases", 1, "noise_stddev"),
    ("releases", 1, "noise_multiplier"),
    ("releases", 1, "adjacency"),
    ("releases", 1, "same_sign"),
    ("releases", 1, "release_shift"),
    ("releases", 1, "width"),
    ("releases", 1, "layout"),
    ("releases", 1, "mechanism"),
    ("releases", 1, "noise"),
    ("releases", 1, "private"),
    ("private",),
    ("noise",),
    ("statements", 0),
    ("format",),
]


@pytest.mark.parametrize("path", RECOMPUTED, ids=lambda path: "/".join(map(str, path)))
def test_a_forger_who_recomputes_the_digest_is_still_found(path):
    found = failed(resealed(mutated(PLAIN, path)))

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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("noise_multiplier", 0.0),
        ("noise_multiplier", None),
        ("noise_multiplier", "inf"),
        ("noise_stddev", 0.0),
        ("l2_bound", None),
        ("l2_bound", 0),
        ("adjacency", "both"),
        ("mechanism", "none"),
        ("private", None),
    ],
)
def test_a_release_without_bound_or_noise_is_a_failed_finding_not_a_crash(field, value):
    forged = copy.deepcopy(PLAIN)
    forged["releases"][0][field] = value

    assert "release 'items-0'" in failed(resealed(forged))


@pytest.mark.parametrize(
    ("field", "value"), [("epsilon", -1.0), ("delta", 0.0), ("delta", 1.0), ("unit", "rating")]
)
def test_a_claim_without_meaning_is_a_failed_finding_not_a_crash(field, value):
    forged = copy.deepcopy(PLAIN)
    forged["claim"][field] = value

    assert f"claimed {field}" in failed(resealed(forged))


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

    assert certificate.holds
    assert certificate.composition.epsilon == 0.0


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"claim": 3}', "no JSON"])
def test_what_is_no_certificate_is_refused(text):
    with pytest.raises(InputError, match="not a certificate"):
        Certificate.from_json(text)


def test_a_plain_object_that_is_no_certificate_is_refused():
    with pytest.raises(InputError, match="not a certificate"):
        Certificate.from_dict({"claim": 3})


def test_verification_needs_the_base_install_only():
    code = """
import sys
for missing in ("dp_accounting", "cryptography", "numba", "pyarrow"):
    sys.modules[missing] = None
from fedboard.common.certificate import Certificate
assert Certificate.from_json(sys.stdin.read()).holds
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=make_certificate().to_json(),
        text=True,
        capture_output=True,
        check=False,
    )

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
        sampled_events() if events is None else events, claim=claim, population=population, planned=True
    )


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


def test_more_amplification_than_the_releases_state_is_found():
    plain = sampled_certificate().to_dict()
    for event in plain["releases"]:
        event["participation"]["probability"] = 0.2

    assert {"epsilon", "rating_epsilon"} <= failed(resealed(plain))


@pytest.mark.parametrize(("error", "holds"), [(5e-8, True), (-5e-8, True), (3e-7, False), (-3e-7, False)])
def test_numbers_of_loss_distributions_may_differ_by_the_rounding_of_another_machine(error, holds):
    plain = sampled_certificate().to_dict()
    plain["curve"][-1]["epsilon"] *= 1 + error

    assert failed(resealed(plain)) == (set() if holds else {"curve at 1e-09: epsilon"})


def test_rounds_that_contradict_themselves_are_a_failed_finding_not_a_crash():
    plain = sampled_certificate().to_dict()
    plain["releases"][0]["participation"]["probability"] = 0.2

    assert failed(resealed(plain)) == {"rounds"}
    with pytest.raises(PrivacyError, match="rounds: the releases of round 'round-1' do not state the same"):
        sampled_certificate([*sampled_events()[:1], *sampled_events(0.2)[1:]])


def test_what_is_implied_for_ratings_and_pairs_is_stated():
    replaced, sampled = make_certificate(), sampled_certificate()

    assert replaced.implied.rating_epsilon == replaced.composition.epsilon
    assert sampled.implied.rating_epsilon > sampled.composition.epsilon
    for certificate in (replaced, sampled):
        assert certificate.implied.pair_epsilon > certificate.composition.epsilon
        assert repr(certificate.implied.rating_epsilon) in " ".join(certificate.statements)


def test_a_certificate_of_an_older_format_is_named_as_such():
    older = {key: value for key, value in PLAIN.items() if key != "implied"} | {"format": 1}

    for read in (Certificate.from_dict, lambda plain: Certificate.from_json(json.dumps(plain))):
        with pytest.raises(InputError, match="format 1; this version reads formats 2 and 3"):
            read(older)


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


def test_releases_that_no_plan_fixed_are_certified_by_what_holds_however_they_were_chosen():
    claim = Guarantee(epsilon=4.0, delta=1e-5, adjacency="add-remove")
    asked = make_certificate(questions(), claim=claim, population=None)
    fixed = make_certificate(questions(), claim=claim, population=None, planned=True)

    assert asked.holds
    assert fixed.holds
    assert asked.composition.epsilon == pytest.approx(4.0)  # 20 questions of 0.2, which simply add up
    assert fixed.composition.epsilon == pytest.approx(3.397, abs=1e-3)  # by loss distributions
    at_claim = next(point for point in asked.curve if point.delta == claim.delta)
    assert at_claim.epsilon == asked.composition.epsilon
    assert asked.implied.pair_epsilon == pytest.approx(8.0)
    assert fixed.implied.pair_epsilon < 8.0
    assert asked.implied.rating_epsilon >= fixed.implied.rating_epsilon
    assert asked.composition.epsilon_rdp > asked.composition.epsilon
    assert "No plan fixed them beforehand" in asked.statements[2]
    assert "All were fixed before the first" in fixed.statements[2]


def test_a_claim_that_only_a_plan_supports_is_refused_without_one():
    claim = Guarantee(epsilon=3.4, delta=1e-5, adjacency="add-remove")

    with pytest.raises(PrivacyError, match="no plan is stated"):
        make_certificate(questions(), claim=claim, population=None)
    plain = make_certificate(questions(), claim=claim, population=None, planned=True).to_dict()
    assert "claim" in failed(resealed({**plain, "planned": False}))


def as_format_2(certificate):
    """What an older version wrote: the same, but for plans."""
    plain = certificate.to_dict() | {"format": 2}
    del plain["planned"]
    return resealed(plain)


def test_an_older_certificate_counts_as_one_without_a_plan():
    claim = Guarantee(epsilon=4.0, delta=1e-5, adjacency="add-remove")
    older = as_format_2(make_certificate(planned=True))

    assert not failed(older)  # Gaussian with full participation: a plan changes nothing
    assert "digest" in failed({**older, "dataset": "others"})
    assert "format" in failed(resealed({**older, "planned": True}))
    sampled = make_certificate(questions(), claim=claim, population=None, planned=True)
    assert {"epsilon", "rating_epsilon", "pair_epsilon"} <= failed(as_format_2(sampled))


def test_a_plan_changes_no_number_of_gaussian_releases_with_full_participation():
    asked, fixed = make_certificate(), make_certificate(planned=True)

    assert (asked.composition, asked.curve, asked.implied) == (fixed.composition, fixed.curve, fixed.implied)
    assert asked.statements == fixed.statements


def test_without_the_accounting_library_a_sampled_certificate_is_not_guessed():
    code = """
import sys
sys.modules["dp_accounting"] = None
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
certificate = Certificate.from_json(sys.stdin.read())
try:
    certificate.verify()
except FedboardError as error:
    print(error)
"""
    text = sampled_certificate().to_json()
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, text=True, capture_output=True, check=False
    )

    assert "needs dp-accounting: pip install 'fedboard[server]'" in done.stdout, done.stderr
