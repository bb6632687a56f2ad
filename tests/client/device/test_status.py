"""What the owner of a device reads of it: what was given, refused and is left, in words."""

from pathlib import Path

from fedboard.client.device.config import load_device
from fedboard.client.device.ledger import AnsweredBoard
from fedboard.client.device.new_device import make_device
from fedboard.client.device.policy import Policy
from fedboard.client.device.status import REASONS, limits_of, status_of
from fedboard.common.wire.refusals import Refusal
from tests.common.tasks.conftest import a_task

PLAN = a_task(epsilon=5.0).plan()


def test_what_was_given_and_refused_is_told_as_soon_as_it_is_written(tmp_path: Path) -> None:
    config = load_device(make_device(tmp_path / "ann", epsilon=8.0, delta=1e-5, adjacency="add-remove"))
    before = status_of(config)

    with config.open_ledger() as ledger:
        about = AnsweredBoard(round=0, board="b" * 64, terms="t" * 64)
        ledger.admit("movies", PLAN[0], scale=0.5, about=about)
        spent = ledger.spent().epsilon
    for code in (Refusal.OVER_LIMIT, Refusal.NOT_PRIVATE, Refusal.OVER_LIMIT):
        config.refusals().add(code)
    found = status_of(config)

    assert (before.spent, before.left, before.runs, before.refusals) == (0.0, 8.0, (), {})
    assert (found.spent, found.left) == (spent, 8.0 - spent)
    (run,) = found.runs
    assert (run.run, run.rounds, run.releases, run.scale) == ("movies", (0,), len(PLAN[0]), 0.5)
    assert found.refusals == {"not-private": 1, "over-limit": 2}


def test_every_code_has_its_words() -> None:
    assert set(REASONS) == set(Refusal)


def test_limits_are_those_of_the_policy_in_words() -> None:
    told = limits_of(Policy(epsilon=1.0, runs=("films-*", "books"), seeded_noise=True, least_noise=1.5))

    assert told["runs that may ask"] == "films-*, books"
    assert told["tasks that may be asked"] == "any"
    assert told["second server that is relied on"] == "none"
    assert told["most epsilon for one run"] == "the whole limit"
    assert told["takes simulations, which are not private"] == "yes"
    assert told["least noise multiplier of a release"] == "1.5"
