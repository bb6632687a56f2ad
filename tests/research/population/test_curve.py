"""The curve of utility against people: its plan, its answer, and that a part is run once, as it was asked for."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fedboard.common.errors import InputError
from research.population.curve import (
    JUDGED,
    NONE,
    SETTLED,
    UNSETTLED_FROM,
    Gap,
    Plan,
    measured,
    people_needed,
)
from research.population.parts import Part, Parts, Ran
from research.population.utility import utility_curve
from research.shared.experiment import Outcome, Setting

PLAN = Plan(epsilons=(1.0,), seeds=2, workers=1)
TINY = Plan(
    epsilons=(1.0,),
    seeds=1,
    workers=1,
    items=40,
    mean=8,
    algorithms=("residual", "bias-private"),
    overrides={"rank": 2, "rounds": 1},
)


def silent(phase: str, done: int, total: int) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    """A whole curve over two numbers of people."""
    return utility_curve(setting(folder), plan=TINY, ladder=(150, 300))


def setting(folder: Path) -> Setting:
    return Setting(seeds=1, scratch=folder, on_progress=silent)


def test_the_line_between_two_that_were_measured_says_how_many_are_needed() -> None:
    users, closed = [100, 1000, 10_000], [0.0, 0.5, 1.0]

    assert people_needed(users, closed, 0.25) == "320"  # half way in logarithms
    assert people_needed(users, closed, 0.5) == "1,000"
    assert people_needed(users, closed, 0.75) == "3,200"


def test_nothing_is_extrapolated() -> None:
    assert people_needed([100, 1000], [0.1, 0.4], 0.5) == "> 1,000"
    assert people_needed([100, 1000], [0.6, 0.7], 0.5) == "<= 100"


def test_a_gap_is_closed_from_the_trivial_model_to_the_best() -> None:
    gap = Gap(trivial=0.9, best=0.8)

    assert [gap.closed(rmse) for rmse in (1.0, 0.9, 0.85, 0.8)] == pytest.approx([-1, 0, 0.5, 1])
    assert gap.is_one
    assert not Gap(trivial=0.8, best=0.9).is_one


class Told(Parts):
    """Parts that were run: the error that stands in a table, by epsilon."""

    def __init__(self, folder: Path, errors: dict[float, float]) -> None:
        super().__init__(folder)
        self.errors = errors
        self.names: list[str] = []

    def ran(self, part: Part) -> Ran:
        self.names.append(part.name)
        return Ran(rmse=self.errors[part.config.privacy.epsilon], seconds=1.0)


def test_of_the_most_people_only_that_is_run_which_they_may_help(folder: Path) -> None:
    plan = replace(PLAN, epsilons=(0.1, 1.0), algorithms=("residual", "adadpals"))
    parts = Told(folder, {0.1: 0.9, 1.0: 0.8 + SETTLED / 2, NONE: 0.8})
    ten, hundred = plan.made_up(10**7), plan.made_up(10**8)
    assert hundred.users == UNSETTLED_FROM

    told: list[tuple[int, int]] = []
    asked = replace(setting(folder), on_progress=lambda _, done, total: told.append((done, total)))

    fewer, most = measured(plan, parts, [ten, hundred], asked)

    assert all(runs for runs in fewer.private.values())
    assert {key for key, runs in most.private.items() if runs} == {("residual", 0.1)}
    assert most.rmse("residual", 1.0) is None
    assert [name for name in parts.names if name.startswith(hundred.label)] == [
        f"{hundred.label}-residual-epsilon-0.1-seed-0"
    ]
    assert told[0] == (0, 12)
    assert told[-1] == (6, 7)


def test_people_to_whom_nothing_is_fitted_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="begin with at most 1,000,000 people"):
        utility_curve(setting(folder), ladder=(10**8,))


@pytest.mark.parametrize("algorithm", ["residual", "bias-private"])
def test_mean_and_deviation_of_many_people_take_no_more_of_a_small_budget_than_they_need(
    algorithm: str,
) -> None:
    def share(epsilon: float, users: int) -> float | None:
        config = PLAN.private(PLAN.made_up(users), algorithm, epsilon, 0).config
        return config.settings.get("moments_share")

    few, many = share(0.1, 10_000), share(0.1, 10**6)

    assert few is not None
    assert many is not None
    assert many < few < 0.1
    assert share(NONE, 10**6) is None  # as usual


def test_many_people_are_streamed_and_judged_on_some() -> None:
    few, many = (PLAN.private(PLAN.made_up(users), "adadpals", 1.0, 0).config for users in (10_000, 10**6))

    assert few.run.streamed
    assert many.run.streamed
    assert few.run.judged_users is None
    assert many.run.judged_users == JUDGED
    assert len(PLAN.seeds_of(PLAN.made_up(10_000))) == 2
    assert len(PLAN.seeds_of(PLAN.made_up(10**6))) == 1


@pytest.mark.slow
def test_parts_that_are_there_are_not_run_again(outcome: Outcome, folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    again = utility_curve(setting(folder), plan=TINY, ladder=(150, 300))

    assert again.numbers == outcome.numbers
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert all(path.suffix == ".json" for path in before)


@pytest.mark.slow
@pytest.mark.usefixtures("outcome")
def test_an_interrupted_curve_goes_on_where_it_was(folder: Path) -> None:
    gone = folder / "made-up-150-residual-epsilon-1-seed-0.json"
    kept = json.loads(gone.read_text())
    gone.unlink()

    utility_curve(setting(folder), plan=TINY, ladder=(150, 300))

    assert json.loads(gone.read_text())["ran"]["rmse"] == kept["ran"]["rmse"]


@pytest.mark.slow
@pytest.mark.usefixtures("outcome")
def test_parts_of_other_settings_are_refused(folder: Path) -> None:
    part = TINY.private(TINY.made_up(150), "residual", 1.0, 0)
    other = replace(part, config=msgspec.structs.replace(part.config, settings={"rank": 3}))

    with pytest.raises(InputError, match="was run with other settings"):
        Parts(folder).ran(other)
