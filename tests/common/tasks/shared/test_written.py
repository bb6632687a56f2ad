"""A configuration has parts in the code and none where it is written, so that boards are what they were."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
import pytest

from fedboard.common.board import Catalogue
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import installed, rebuild_task
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import (
    Feedback,
    RatingsConfig,
    as_written,
    checked_options,
    from_written,
    has_part,
    keys_of,
)

ALL = tuple(installed())
OTHER: dict[str, Any] = {
    "rating_low": 0.5,
    "rating_high": 4.0,
    "count_cap": 7,
    "mean_cap": 9.0,
    "public_seed": 3,
    "adjacency": "replace",
    "noise_multipliers": {"counts": 2.0},
}
"""No default among them."""


@pytest.mark.parametrize("algorithm", ALL, ids=lambda algorithm: algorithm.name)
def test_what_is_written_is_read_again(algorithm: Algorithm) -> None:
    settings = from_written(OTHER, algorithm.settings)

    written = as_written(settings)

    assert {key: written[key] for key in OTHER} == OTHER
    assert "shared" not in written
    assert set(written) == set(keys_of(algorithm.settings))
    assert from_written(msgspec.json.decode(msgspec.json.encode(written)), algorithm.settings) == settings
    assert not any(isinstance(value, dict) for key, value in written.items() if key != "noise_multipliers")


@pytest.mark.parametrize("algorithm", ALL, ids=lambda algorithm: algorithm.name)
def test_no_key_is_an_algorithm_s_own_and_everybody_s(algorithm: Algorithm) -> None:
    own = {one.name for one in fields(algorithm.settings)} - {"shared"}

    assert has_part(algorithm.settings)
    assert not own & {one.name for one in fields(RatingsConfig)}
    assert len(keys_of(algorithm.settings)) == len(set(keys_of(algorithm.settings)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rating_low": 5.0}, "rating_high must be > rating_low, got 5.0"),
        ({"count_cap": 0}, "count_cap must be"),
        ({"mean_cap": float("inf")}, "mean_cap must be finite and > 0, got inf"),
    ],
)
@pytest.mark.parametrize("algorithm", ALL, ids=lambda algorithm: algorithm.name)
def test_a_range_is_checked_once_for_all(algorithm: Algorithm, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        from_written(wrong, algorithm.settings)


def test_a_wrong_type_is_told_where_it_was_written() -> None:
    """Whoever wrote ``settings.count_cap`` knows nothing of a part."""
    residual = next(algorithm for algorithm in ALL if algorithm.name == "residual")

    with pytest.raises(InputError, match="settings: count_cap must be a whole number, got a text"):
        checked_options({"count_cap": "many"}, residual.settings, "settings")
    with pytest.raises(InputError, match=r"unknown key 'shared'; known are adjacency, .*count_cap"):
        checked_options({"shared": {"count_cap": 3}}, residual.settings, "settings")


def test_a_board_that_writes_the_part_is_refused() -> None:
    """Read as one without it, its settings would silently be the defaults."""
    residual = next(algorithm for algorithm in ALL if algorithm.name == "residual")
    task = residual.task(residual.settings(rank=2), backend="numpy", features=None)
    board = task.first_board(Catalogue(item_ids=("a",)))
    parts = msgspec.to_builtins(task.settings)

    with pytest.raises(InputError, match="written without parts"):
        rebuild_task(replace(board, config=parts))


@dataclass(frozen=True, kw_only=True)
class _Twice:
    """Who sets ``count_cap``, sets which?"""

    shared: RatingsConfig = field(default_factory=RatingsConfig)
    count_cap: int = 3


@dataclass(frozen=True, kw_only=True)
class _Without:
    feedback: Feedback = Feedback.EXPLICIT


@dataclass(frozen=True, kw_only=True)
class _Other:
    shared: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize("kind", [_Twice, _Without, _Other])
def test_an_algorithm_without_what_the_house_reads_is_no_algorithm(kind: type[Any]) -> None:
    with pytest.raises(InputError, match="must be a dataclass with a field shared: RatingsConfig"):
        replace(ALL[0], settings=kind)
