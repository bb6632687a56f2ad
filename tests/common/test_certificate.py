import copy
import json
import subprocess
import sys

import pytest

from fedboard.common.certificate import Certificate, Guarantee, certify
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting import compose, delta_of, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.noise import SecureNoise, SeededNoise
from fedboard.common.privacy.release import GaussianRelease

MULTIPLIERS = (12.0, 9.0, 15.0)


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


RECOMPUTED = [
    ("claim", "epsilon"),
    ("claim", "delta"),
    ("claim", "adjacency"),
    ("claim", "unit"),
    ("composition", "mu"),
    ("composition", "rho"),
    ("composition", "epsilon"),
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
