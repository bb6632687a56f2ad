"""Small releases over many seeds, as the run makes them: what is wrong with one number is seen."""

from dataclasses import replace

import pytest

from fedboard.simulations.audit.noise_check import twins_of
from fedboard.simulations.audit.small_releases import SmallReleases, small_releases
from fedboard.simulations.audit.subject import ENOUGH, Plan, Subject
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.broken.mutants import mutant_named
from tests.simulations.audit.conftest import audited

pytestmark = pytest.mark.slow

MEAN = ("mean/sum", "mean/number")
FEW = 100
"""Numbers where the kind of run is looked at, not how many make enough: correct noise has 0.8 to 1.2 of its
deviation in 199 of 200 such samples, noise that is off by a factor of 1.5 in one of 400.
"""


def looked_at(
    pool: WorkerPool,
    subject: Subject | None = None,
    *,
    kind: str = "explicit",
    names: tuple[str, ...] = MEAN,
    enough: int = FEW,
) -> SmallReleases:
    correct, entrance = audited(kind)
    cohort = entrance.honest_rows().cohort
    return small_releases(subject or correct, cohort, names, Plan(seed=5, small_numbers=enough), pool=pool)


@pytest.mark.parametrize(
    ("kind", "names", "enough"),
    [
        ("explicit", MEAN, ENOUGH),
        ("replace", MEAN, FEW),  # the same numbers, other noise
        ("implicit", ("round-2/gram",), ENOUGH),
        ("residual", ("moments", "bias/moment", "round-2/moment", "round-2/ridges"), FEW),
    ],
)
def test_every_run_gives_its_own_numbers_until_they_are_enough(
    kind: str, names: tuple[str, ...], enough: int, pool: WorkerPool
) -> None:
    found = looked_at(pool, kind=kind, names=names, enough=enough)

    assert set(found.noise) == {line.name for line in found.lines} == set(names)
    for numbers in found.noise.values():
        assert numbers.size >= enough
        assert len(numbers) >= 40
        assert 0.8 < numbers.std() < 1.2
    assert all(line.strict <= line.mu for line in found.lines)


def test_a_number_without_noise_is_all_about_its_canary(pool: WorkerPool) -> None:
    subject, _ = audited()

    found = looked_at(pool, mutant_named("mean over the exact number").break_it(subject))
    by_name = {line.name: line for line in found.lines}

    assert by_name["mean/number"].strict > 10 * by_name["mean/number"].mu
    assert by_name["mean/sum"].strict <= by_name["mean/sum"].mu
    assert abs(found.noise["mean/number"]).max() < 1e-3


def test_fewer_numbers_tell_coarser_claims_apart() -> None:
    assert twins_of(1 << 13) == (0.9, 1.1)
    lower, upper = twins_of(300)
    assert 0.4 < lower < 0.6
    assert upper == pytest.approx(1 / lower)


def test_nothing_is_played_where_nothing_is_small(pool: WorkerPool) -> None:
    assert looked_at(pool, names=()).n_runs == 0
    subject, _ = audited()
    assert looked_at(pool, replace(subject), names=("no such release",)).noise == {}
