"""Runs of the residual task: the same board for any number of workers and after any interruption."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.runs.trainer import Listener
from fedboard.simulations.simulate import simulate
from tests.pictures import leave_out

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]

N_USERS = 2200  # more than one block of users, which are 2048
SETTINGS: dict[str, Any] = {"rank": 3, "rounds": 3, "clip_quantile": 0.5, "curvature": "released"}


def a_config(
    *, privacy: Mapping[str, Any] | None = None, feedback: str = "explicit", **run: Any
) -> SimulationConfig:
    return parse_config(
        {
            "algorithm": "residual",
            "feedback": feedback,
            "data": {"synthetic": {"n_users": N_USERS, "n_items": 40, "mean_ratings_per_user": 12.0}},
            "settings": {**SETTINGS, "start": "spectral"},
            "privacy": {"epsilon": 5.0, **(privacy or {})},
            "run": {"baselines": False, "kernels": "compiled", "evaluate_rounds": False, **run},
        }
    )


def boards(run: Path) -> list[Board]:
    return [Board.load(path) for path in sorted((run / "boards").glob("board-*.board"))]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run with one worker. To be read only."""
    out = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patched:
        leave_out(patched)
        simulate(a_config(), out)
    return out


def assert_same(run: Path, finished: Path) -> None:
    ours, theirs = boards(run), boards(finished)
    assert [board.digest for board in ours] == [board.digest for board in theirs]
    assert len(ours) == 7
    for name, values in theirs[-1].arrays.items():
        np.testing.assert_array_equal(ours[-1].arrays[name], values)


def test_workers_do_not_matter(finished: Path, tmp_path: Path) -> None:
    simulate(a_config(workers=2), tmp_path / "run")

    assert_same(tmp_path / "run", finished)


class StoppedError(Exception):
    pass


class StopsAfter(Listener):
    """A listener that ends the run when a round is finished, as any failure there would."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round_finished(self, line: Mapping[str, Any]) -> None:
        self.left -= 1
        if self.left == 0:
            raise StoppedError


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_an_interrupted_run_goes_on_to_the_same_board(rounds: int, finished: Path, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        simulate(a_config(), tmp_path / "run", listener=StopsAfter(rounds))
    assert len(boards(tmp_path / "run")) == rounds + 1

    simulate(a_config(), tmp_path / "run", resume=True)

    assert_same(tmp_path / "run", finished)


def test_a_round_that_was_paid_for_but_not_published_is_made_again(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        simulate(a_config(), tmp_path / "run", listener=StopsAfter(4))
    (tmp_path / "run" / "boards" / "board-0004.board").unlink()

    simulate(a_config(), tmp_path / "run", resume=True)

    assert_same(tmp_path / "run", finished)


@pytest.mark.parametrize(
    "privacy",
    [
        {"adjacency": "replace"},
        {"participation": {"kind": "fixed-size", "size": 1000}, "adjacency": "replace"},
        {"personal": [{"epsilon": 1.0, "share": 0.3}]},
    ],
    ids=["replace", "fixed-size", "personal"],
)
def test_every_promise_that_can_be_made_can_be_kept(privacy: dict[str, Any], tmp_path: Path) -> None:
    result = simulate(a_config(privacy=privacy), tmp_path / "run")

    assert result.board.version == 6
    assert all(np.isfinite(values).all() for values in result.board.arrays.values())
    with Ledger.open(tmp_path / "run" / "ledger.sqlite", read_only=True) as ledger:
        assert 4.99 < ledger.spent().epsilon <= 5.0


def test_what_was_booked_is_the_plan(finished: Path) -> None:
    with Ledger.open(finished / "ledger.sqlite", read_only=True) as ledger:
        names = [event["name"] for event in ledger.events()]
        assert ledger.spent().epsilon == pytest.approx(5.0, rel=1e-3)
        assert ledger.spent().epsilon <= 5.0
    preparation = ["moments", "counts"]
    biases = ["weighted-counts", "bias/linear", "bias/moment"]
    rounds = [
        *["round-1/linear", "round-1/moment", "round-1/curvature", "round-1/clip"],
        *["round-2/linear", "round-2/moment", "round-2/ridges", "round-2/curvature", "round-2/clip"],
        *["round-3/linear", "round-3/moment", "round-3/ridges", "round-3/curvature"],
    ]
    assert names == [*preparation, *biases, "pairs", *rounds]
