"""Presets and search spaces: read from beside the algorithm, the nearest epsilon, faults named.

A configuration has parts in the code and none where it is written, so that boards are what they were.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.common.algorithms.registry import installed, rebuild_task, variant_of
from fedboard.common.algorithms.shared.algorithm import Algorithm, Variant
from fedboard.common.algorithms.shared.ratings_config import (
    Feedback,
    RatingsConfig,
    as_written,
    checked_options,
    from_written,
    keys_of,
)
from fedboard.common.algorithms.shared.tuned import Preset, preset, search_tables
from fedboard.common.board import Catalogue
from fedboard.common.errors import InputError

EXPLICIT = Feedback.EXPLICIT
TWO = """
[[explicit]]
epsilon = 1.0
settings = { rank = 3 }
shares = { counts = 0.1 }
[[explicit]]
epsilon = 16.0
settings = { rank = 5 }
"""


def beside(folder: Path, name: str = "dpals-tail", **files: str) -> Variant:
    """A variant of AdaDPALS with these files in place of its own."""
    for stem, text in files.items():
        (folder / f"{stem}.toml").write_text(text, encoding="utf-8")
    return replace(variant_of("adadpals").algorithm, folder=folder).variant(name)


@pytest.mark.parametrize(("epsilon", "rank"), [(0.01, 3), (1.0, 3), (3.9, 3), (4.1, 5), (16.0, 5), (1e6, 5)])
def test_the_nearest_epsilon_on_the_log_scale_is_taken(tmp_path: Path, epsilon: float, rank: int) -> None:
    assert preset(beside(tmp_path, presets=TWO), EXPLICIT, epsilon).settings == {"rank": rank}


def test_what_is_for_a_variant_is_laid_over_for_it_alone(tmp_path: Path) -> None:
    own = TWO + (
        '[[explicit]]\nepsilon = 1.0\nvariants = ["dpals-tail"]\nsettings = { rank = 4 }\n'
        '[[explicit]]\nvariants = ["dpals-tail", "dpals-uniform"]\nshares = { mean = 0.01 }\n'
    )
    tail, uniform, base = (
        beside(tmp_path, name, presets=own) for name in ("dpals-tail", "dpals-uniform", "adadpals")
    )

    assert preset(tail, EXPLICIT, 1.0) == Preset(settings={"rank": 4}, shares={"counts": 0.1, "mean": 0.01})
    assert preset(tail, EXPLICIT, 20.0) == Preset(settings={"rank": 5}, shares={"mean": 0.01})
    assert preset(uniform, EXPLICIT, 1.0) == Preset(
        settings={"rank": 3}, shares={"counts": 0.1, "mean": 0.01}
    )
    assert preset(base, EXPLICIT, 1.0) == Preset(settings={"rank": 3}, shares={"counts": 0.1})


def test_what_is_for_a_chosen_setting_is_laid_over_where_it_is_chosen(tmp_path: Path) -> None:
    own = (
        TWO
        + "[[explicit]]\nepsilon = 1.0\nwhere = { weight_exponent = 0.5 }\nsettings = { clip_norm = 0.1 }\n"
    )
    variant = beside(tmp_path, "adadpals", presets=own)

    assert preset(variant, EXPLICIT, 1.0).settings == {"rank": 3}
    assert preset(variant, EXPLICIT, 1.0, chosen={"weight_exponent": 0.25}).settings == {"rank": 3}
    chosen = preset(variant, EXPLICIT, 1.0, chosen={"weight_exponent": 0.5})
    assert chosen.settings == {"rank": 3, "clip_norm": 0.1}
    unknown = beside(tmp_path, "adadpals", presets=own.replace("weight_exponent", "colour"))
    with pytest.raises(InputError, match="unknown setting 'colour'"):
        preset(unknown, EXPLICIT, 1.0)


LAMBDAS = {  # epsilon: lambda of mu = 1, 1/2, 1/3, 1/4 on MovieLens 10M, then of tail and uniform sampling
    1.0: (30, 40, 40, 40, 60, 60),
    5.0: (40, 60, 60, 60, 40, 40),
    20.0: (10, 40, 40, 40, 40, 40),
}
OF_LISTS = {  # the same on MovieLens 20M: lambda, alpha0, clipping norm; mu = 0 comes last
    1.0: ((10, 0.8, 0.05), (30, 0.4, 0.05), (30, 0.4, 0.05), (30, 0.4, 0.05), (50, 0.4, 0.1)),
    5.0: ((10, 0.4, 0.05), (30, 0.3, 0.1), (40, 0.3, 0.15), (40, 0.3, 0.2), (50, 0.3, 0.2)),
    20.0: ((20, 0.2, 0.2), (30, 0.2, 0.2), (30, 0.1, 0.2), (30, 0.1, 0.2), (30, 0.1, 0.2)),
}
PUBLISHED_MUS = (1.0, 1 / 2, 1 / 3, 1 / 4)


@pytest.mark.parametrize("epsilon", LAMBDAS)
def test_the_paper_s_recipe_has_its_published_settings(epsilon: float) -> None:
    def published(name: str, feedback: Feedback, **chosen: float) -> dict[str, Any]:
        return dict(preset(variant_of(name), feedback, epsilon, recipe="paper", chosen=chosen).settings)

    adaptive = [published("adadpals", EXPLICIT, weight_exponent=mu) for mu in PUBLISHED_MUS]
    sampled = [published(name, EXPLICIT) for name in ("dpals-tail", "dpals-uniform")]
    assert (
        tuple(round(own["item_ridge"] * 10 * own["clip_norm"] ** 2, 2) for own in (*adaptive, *sampled))
        == (LAMBDAS[epsilon])
    )
    assert published("adadpals", EXPLICIT)["weight_exponent"] == 1 / 3
    assert {own["items_per_user"] for own in sampled} == {100}

    mus = (*PUBLISHED_MUS, 0.0)
    lists = [published("adadpals", Feedback.IMPLICIT, weight_exponent=mu) for mu in mus]
    told = tuple((own["user_ridge"], own["unobserved_weight"], own["clip_norm"]) for own in lists)
    assert told == OF_LISTS[epsilon]
    for own in lists:
        assert own["item_ridge"] * 10 * own["clip_norm"] ** 2 == pytest.approx(own["user_ridge"], rel=1e-4)
        assert own["item_unobserved_weight"] == pytest.approx(own["unobserved_weight"] / 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[explicit]", "presets.toml of adadpals: Expected"),
        ("[[explicit]]\nsettings = { rank = 2 }", "without `variants` needs the epsilon"),
        ("[[explicit]]\nepsilon = 0.0", "epsilon must be finite and > 0, got 0"),
        ("[[explicit]]\nepsilon = inf", "epsilon must be finite and > 0, got inf"),
        (TWO + '[[explicit]]\nepsilon = 2.0\nvariants = ["dpals-tail"]', "tuned at epsilon 2"),
        (TWO + '[[explicit]]\nvariants = ["dpals"]', "unknown variant 'dpals'"),
        (TWO + "[[explicit]]\nepsilon = 1.0", "two entries for all"),
        ("[[explicit]]\nepsilon = 1.0\nsettings = { rnak = 2 }", "unknown setting 'rnak'; known are"),
        ("[[explicit]]\nepsilon = 1.0\nshares = { count = 0.1 }", "unknown share 'count'"),
        ("[[explicit]]\nepsilon = 1.0\nshares = { counts = 'much' }", "Expected `float`"),
        ("[[explicit]]\nepsilno = 1.0", "unknown field `epsilno`"),
        ("[[explicite]]\nepsilon = 1.0", "unknown field `explicite`"),
    ],
)
def test_presets_that_cannot_be_used_say_where_and_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        preset(beside(tmp_path, presets=text), EXPLICIT, 1.0)
    assert "presets.toml of adadpals" in str(refused.value)


def test_a_search_space_of_a_variant_is_laid_over_that_of_all(tmp_path: Path) -> None:
    text = (
        "[explicit.settings]\nrank = { int = [2, 9] }\n[explicit.shares]\nmean = { log = [0.01, 0.1] }\n"
        "[variants.dpals-tail.explicit.settings]\nitems_per_user = { choice = [25, 50] }\n"
    )
    tail, base = (beside(tmp_path, name, search=text) for name in ("dpals-tail", "adadpals"))

    shared: dict[str, Any] = {"rank": {"int": [2, 9]}}
    assert search_tables(base, EXPLICIT) == {"settings": shared, "shares": {"mean": {"log": [0.01, 0.1]}}}
    assert search_tables(tail, EXPLICIT)["settings"] == {**shared, "items_per_user": {"choice": [25, 50]}}
    assert search_tables(tail, Feedback.IMPLICIT) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[variants.dpals.explicit.settings]\nrank = { int = [2, 9] }", "unknown variant 'dpals'"),
        ("[explicit.settings]\nrnak = { int = [2, 9] }", "unknown setting 'rnak'"),
        ("[explicit.shares]\ncount = { log = [0.1, 0.2] }", "unknown share 'count'"),
        ("[explicite.settings]\nrank = { int = [2, 9] }", "unknown field `explicite`"),
    ],
)
def test_a_search_space_that_cannot_be_used_says_where_and_why(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        search_tables(beside(tmp_path, search=text), EXPLICIT)
    assert "search.toml of adadpals" in str(refused.value)


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
