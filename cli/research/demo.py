"""``fedboard demo``: everything once, on made-up data."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import command, option
from fedboard.cli.documents import JSON, document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.common.board import Board, Catalogue
    from fedboard.common.cohort import Cohort
    from fedboard.simulations.config import SimulationConfig


_EXAMPLE_PERSON, _EXAMPLE_ITEMS = 1, 5
_EXAMPLE_FILE, _PAGE = "example-ratings.csv", "page.html"
_BESIDE = "adadpals"
"""Shown beside the default algorithm, at the same epsilon, with the floors that both must beat."""
_USUAL = {"n_users": 20_000, "n_items": 1_000, "mean_ratings_per_user": 85}
_SMALL = {"n_users": 6_000, "n_items": 300, "mean_ratings_per_user": 50}
"""Fewer people and fewer films, so that there is still something to learn from each."""


@command("fedboard demo --epsilon 2", "fedboard demo --small")
def demo(
    out: Path | None = option("Directory of the run.  [default: runs/demo]"),
    epsilon: float = option("Privacy budget.", default=5.0),
    small: bool = option("6,000 people and 300 films: done in some seconds."),
    as_json: bool = JSON,
) -> None:
    """Learn a board from 20,000 made-up people, and use it.

    Takes half a minute, and once longer because its kernels are compiled. A second demo goes to a directory of its
    own. Ends with a verdict: how much better than item means, how much worse than without privacy.
    """
    from fedboard.cli.research.simulate import run
    from fedboard.client.boards.cache import open_board
    from fedboard.common.algorithms.registry import floor_names
    from fedboard.simulations.problem import load_problem
    from fedboard.simulations.runs.directory import RUNS, fresh

    config = _configuration(epsilon, _workers(small=small), small=small)
    place = fresh(out or RUNS / "demo")
    click.echo(
        f"Made-up people rate made-up films; {config.algorithm} learns a board from them,\n"
        f"then {_BESIDE} another, for comparison ...",
        err=True,
    )
    problem = load_problem(config)
    beside = (_BESIDE, *floor_names(config.feedback))
    told = run(config, place, resume=False, problem=problem, beside=beside, page=place / _PAGE)
    own = problem.train.rows(_EXAMPLE_PERSON, _EXAMPLE_PERSON + 1)
    board = open_board(place)
    _write_ratings(own, board.catalogue, place / _EXAMPLE_FILE)
    if as_json:
        document({**told.record, "example_ratings": str(place / _EXAMPLE_FILE)})
    else:
        shown = "\n\n".join((told.text, _example(own, board), _next_steps(place)))
        click.echo(f"{shown}\n\n{told.verdict}".rstrip())


def _workers(*, small: bool) -> int:
    """A small demo is over before more processes have started."""
    return 1 if small else min(2, os.cpu_count() or 1)


def _configuration(epsilon: float, workers: int, *, small: bool) -> "SimulationConfig":
    from fedboard.simulations.config import parse_config

    raw: dict[str, Any] = {
        "data": {"synthetic": _SMALL if small else _USUAL},
        "privacy": {"epsilon": epsilon},
        "run": {"workers": workers},
    }
    return parse_config(raw, source="--epsilon")


def _write_ratings(own: "Cohort", catalogue: "Catalogue", path: Path) -> None:
    """Her ratings as the file that ``fedboard recommend`` reads."""
    rows = [f"{catalogue.item_ids[i]},{r:g}" for i, r in zip(own.items, own.ratings, strict=True)]
    path.write_text("\n".join(("item,rating", *rows)) + "\n", encoding="utf-8")


def _example(own: "Cohort", board: "Board") -> str:
    """What one of the made-up people gets to see."""
    from fedboard.client.recommending.recommend import recommend

    titles = board.catalogue.titles or board.catalogue.item_ids
    favourites = (-own.ratings).argsort(kind="stable")[:_EXAMPLE_ITEMS]
    liked = [(titles[own.items[n]], f"{own.ratings[n]:.0f}") for n in favourites]
    found = [(r.title or r.item_id, f"{r.score:.1f}") for r in recommend(own, board, k=_EXAMPLE_ITEMS)]
    return "\n\n".join(
        (
            f"One of them rated {own.n_ratings} films, these highest:\n{aligned(('', ''), liked)}",
            "Her own device, from the public board and her own ratings, recommends (predicted rating):\n"
            + aligned(("", ""), found),
        )
    )


def _next_steps(place: Path) -> str:
    steps = [
        (f"open {place / _PAGE} in a browser", "rate films there, and check the guarantee"),
        (f"fedboard certificate verify {place}", "recompute the guarantee"),
        (f"fedboard recommend {place / _EXAMPLE_FILE} {place}", "her recommendations again"),
        ("fedboard sweep --data synthetic --algorithms residual,als", "quality against epsilon"),
        ("fedboard simulate --data PATH --epsilon 5", "your own ratings"),
    ]
    return "Try next:\n" + "\n".join(f"  {command}\n      {what}" for command, what in steps)
