"""The canary game: near the claim on correct code, above it on broken code, zero where there is nothing."""

import numpy as np
import pytest

from fedboard.simulations.audit.canaries import enough_canaries
from fedboard.simulations.audit.game import Devices, GameResult, canary_game
from fedboard.simulations.audit.subject import Plan, Subject
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.broken.mutants import mutant_named, null_subject
from tests.simulations.audit.conftest import audited, configuration, entered, noise_of

N_CANARIES = 1000


def played(
    pool: WorkerPool,
    subject: Subject | None = None,
    *,
    kind: str = "explicit",
    seed: int = 0,
    devices: Devices = Devices.HOSTILE,
) -> GameResult:
    correct, entrance = audited(kind)
    plan = Plan(canaries=N_CANARIES)
    return canary_game(subject or correct, entrance, plan, seed=seed, pool=pool, devices=devices)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["explicit", "implicit", "replace", "residual", "spectral"])
def test_a_correct_run_shows_most_of_its_claim_and_no_more(kind: str, pool: WorkerPool) -> None:
    result = played(pool, kind=kind)

    assert result.rejected == 0
    assert not result.violated_releases
    assert result.whole.strict <= result.whole.mu
    assert result.epsilon == pytest.approx(5.0)
    assert 0.5 * result.claimed < result.epsilon_lower_bound < 1.1 * result.claimed
    assert result.whole.split <= result.whole.mu
    reachable = 1.0 if kind != "replace" else 0.8
    assert result.whole.reach == pytest.approx(reachable, abs=0.06)


@pytest.mark.slow
def test_a_correct_run_is_flagged_at_most_at_the_nominal_rate(pool: WorkerPool) -> None:
    violations = sum(played(pool, seed=seed).violated for seed in range(6))

    assert violations <= 2  # exceeded with probability 0.2 %


def test_a_fifth_less_noise_is_above_the_claim(pool: WorkerPool) -> None:
    subject, _ = audited()

    result = played(pool, mutant_named("noise x 0.8").break_it(subject))

    assert result.violated
    assert result.epsilon_lower_bound > result.claimed


@pytest.mark.parametrize("kind", ["explicit", "implicit", "replace"])
def test_where_no_data_is_released_nothing_shows(kind: str, pool: WorkerPool) -> None:
    subject, _ = audited(kind)

    result = played(pool, null_subject(subject), kind=kind)

    assert result.whole.strict == 0.0
    assert all(line.strict == 0.0 for line in result.releases)


@pytest.mark.slow
def test_every_release_of_the_run_is_audited_against_its_own_claim(pool: WorkerPool) -> None:
    result = played(pool, kind="implicit")

    small = noise_of(*audited("implicit"), pool).small
    of_rounds = {f"round-{t}/{what}" for t in (1, 2) for what in ("quadratic", "linear")}
    grams = {"round-1/gram", "round-2/gram"}
    lines = {line.name: line for line in (*small, *result.releases)}
    assert {line.name for line in result.releases} == {"counts", *of_rounds}
    assert {line.name for line in small} >= grams
    assert set(lines) == {"counts", *of_rounds, *grams}
    assert np.sqrt(sum(line.mu**2 for line in lines.values())) == pytest.approx(result.whole.mu)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["explicit", "implicit", "replace", "residual"])
def test_canaries_whose_own_devices_answer_show_something_and_no_more_than_is_claimed(
    kind: str, pool: WorkerPool
) -> None:
    result = played(pool, kind=kind, devices=Devices.OWN)

    assert not result.violated_releases
    assert result.whole.strict <= result.whole.mu
    assert result.epsilon_lower_bound < 1.1 * result.claimed
    if kind in ("explicit", "residual"):  # elsewhere so many rows over so few items blur each other
        assert result.epsilon_lower_bound > 0.1 * result.claimed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["explicit", "implicit", "replace", "uniform", "residual"])
@pytest.mark.parametrize("devices", list(Devices))
def test_canaries_in_the_file_change_nobody_elses_part(kind: str, devices: Devices, pool: WorkerPool) -> None:
    assert played(pool, kind=kind, devices=devices).unexplained == {}


def test_secure_noise_is_audited_like_any_other(pool: WorkerPool) -> None:
    secure, _ = entered(configuration(), noise="secure")

    result = played(pool, secure)

    # Its noise is another one each time, so: eight deviations of the estimate, not the family's confidence.
    assert result.whole.mu / 3 < result.whole.estimate < 5 * result.whole.mu / 3
    assert result.epsilon_lower_bound > 2.0


@pytest.mark.parametrize(
    ("epsilon", "least", "most"), [(1.0, 15_000, 40_000), (5.0, 2_000, 2_000), (20.0, 900, 2_000)]
)
def test_stronger_claims_need_more_canaries(epsilon: float, least: int, most: int) -> None:
    assert least <= enough_canaries(epsilon, 1e-5, n_items=3_000) <= most


def test_small_catalogues_take_fewer_canaries() -> None:
    assert enough_canaries(20.0, 1e-5, n_items=300) < enough_canaries(20.0, 1e-5, n_items=3_000)
