"""A catalogue that is ranked block by block: the same items as at once, and little memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.recommending import recommend as device
from fedboard.client.recommending.recommend import recommend
from fedboard.common.board import Board, Catalogue
from fedboard.common.tasks.registry import algorithm_of
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.judging.contract_runs import ITEMS, made, played, population

PLAYED = [
    ("residual", Feedback.EXPLICIT),
    ("residual", Feedback.IMPLICIT),
    ("adadpals", Feedback.EXPLICIT),
    ("topk", Feedback.IMPLICIT),
    ("bias-private", Feedback.EXPLICIT),
]


@pytest.mark.parametrize(("name", "feedback"), PLAYED)
def test_blocks_give_the_list_of_the_whole(
    name: str, feedback: Feedback, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, people = made(algorithm_of(name).variant(), feedback).task, population(feedback)
    board = played(task, people)[-1].after
    own = people.rows(3, 4)
    expected = recommend(own, board, k=7)

    for items in (1, 5, ITEMS - 1):
        monkeypatch.setattr(device, "_ITEMS_AT_ONCE", items)
        found = recommend(own, board, k=7)

        assert [entry.item for entry in found] == [entry.item for entry in expected]
        assert [entry.score for entry in found] == [entry.score for entry in expected]


def test_ties_go_to_the_lower_number_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    task, people = (
        made(algorithm_of("residual").variant(), Feedback.EXPLICIT).task,
        population(Feedback.EXPLICIT),
    )
    board = played(task, people)[-1].after
    alike = {**board.arrays, "item_factors": np.zeros_like(board.arrays["item_factors"])}
    alike |= {
        "item_biases": np.zeros_like(board.arrays["item_biases"]),
        "learnt": np.ones_like(board.arrays["learnt"]),
    }
    equal = Board(
        version=board.version, task=board.task, config=board.config, arrays=alike, catalogue=board.catalogue
    )
    own = people.rows(3, 4)
    monkeypatch.setattr(device, "_ITEMS_AT_ONCE", 4)

    found = [entry.item for entry in recommend(own, equal, k=6)]

    assert found == sorted(set(range(ITEMS)) - set(own.items.tolist()))[:6]


MEASURED = """
import json, sys
from pathlib import Path
import numpy as np
from fedboard.client.boards.open_board import open_board
from fedboard.client.recommending.recommend import recommend
from fedboard.common.cohort import Cohort
def peak():  # of this program; what getrusage says begins with what its parent held
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
before = peak()
board = open_board(Path(sys.argv[1]))
n_items = board.catalogue.n_items
items, ratings = np.array([1, 5, 9], np.int32), np.array([5, 3, 1], np.float32)
own = Cohort(indptr=np.array([0, 3]), items=items, ratings=ratings, n_items=n_items)
found = recommend(own, board, k=20)
print(json.dumps({"items": len(found), "more": peak() - before}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the most memory that a program held is read from /proc")
def test_a_device_needs_little_more_than_the_board_is_large(tmp_path: Path) -> None:
    """No copy of the factors and no scores for a hundred people: of 200 000 items the board and its ids."""
    n_items, rank = 200_000, 24
    task = made(algorithm_of("residual").variant(), Feedback.EXPLICIT).task
    small = played(task, population(Feedback.EXPLICIT))[-1].after
    rng = np.random.default_rng(0)
    arrays = {
        name: np.resize(values, (n_items, *values.shape[1:])) if values.shape[:1] == (ITEMS,) else values
        for name, values in small.arrays.items()
    }
    arrays["item_factors"] = rng.standard_normal((n_items, rank), dtype=np.float32)
    config = json.loads(json.dumps(dict(small.config)))
    config["rank"] = rank
    board = Board(
        version=small.version,
        task=small.task,
        config=config,
        arrays=arrays,
        catalogue=Catalogue(item_ids=tuple(f"{number:06}" for number in range(n_items))),
    )
    board.save(path := tmp_path / "large.board")

    told = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True, timeout=120
    )

    found = json.loads(told.stdout)
    assert found["items"] == 20
    assert found["more"] < path.stat().st_size + 110 * n_items + (16 << 20)
