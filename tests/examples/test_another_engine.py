"""The page on other engines shows the file's own code, and that code makes the boards of every other engine."""

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.board import Board
from fedboard.common.errors import PrivacyError
from fedboard.simulations.config import parse_config
from fedboard.simulations.simulate import simulate

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "another_engine.py"
SETTINGS: dict[str, Any] = {
    "algorithm": "bias-private",
    "data": {"synthetic": {"n_users": 400, "n_items": 50, "mean_ratings_per_user": 10.0}},
}


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("another_engine", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_its_board_is_that_of_a_run_in_memory_whatever_the_spans(tmp_path: Path) -> None:
    quiet = {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"}
    run = simulate(parse_config({**SETTINGS, "run": quiet}), tmp_path / "run", report=False)
    boards = list(map(Board.load, sorted((run.path / "boards").iterdir())))

    with ThreadPoolExecutor(2) as threads:
        found = [loaded().train(SETTINGS, threads.map, n_spans=spans).digest for spans in (1, 7)]

    assert found == [boards[-1].digest] * 2


def test_an_engine_that_hands_in_a_span_twice_or_not_at_all_releases_nothing() -> None:
    def twice(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        return [function(item) for item in (*items, items[0])]

    def lost(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        return [function(item) for item in items[1:]]

    for mapped, said in ((twice, "she would count twice"), (lost, "each counted once")):
        with pytest.raises(PrivacyError, match=said):
            loaded().train(SETTINGS, mapped)
