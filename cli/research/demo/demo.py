"""``fedboard demo``: everything once, on made-up data."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.counts import WORKERS
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.common.board import Board, Catalogue
    from fedboard.common.cohort import Cohort
    from fedboard.simulations.config import SimulationConfig

_EXAMPLE_PERSON, _EXAMPLE_ITEMS = 1, 5
_EXAMPLE_FILE = "example-ratings.csv"
_BESIDE = "adadpals"
"""Shown beside the default algorithm, at the same epsilon, with the floors that both must beat."""


@click.command(epilog="Example: fedboard demo --epsilon 2")
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the run.  [default: runs/demo]")
@click.option("--workers", type=WORKERS, help="Worker processes.  [default: at most 2]")
@click.option("--epsilon", type=float, default=5.0, show_default=True, help="Privacy budget.")
def demo(out: Path | None, workers: int | None, epsilon: float) -> None:
    """Learn a board from 20,000 made-up people under a privacy budget, and use it.

    Takes about a minute. A second demo goes to a directory of its own.
    """
    from fedboard.cli.research.simulate import run
    from fedboard.client.boards.open_board import open_board
    from fedboard.common.tasks.registry import floor_names
    from fedboard.simulations.problem import load_problem
    from fedboard.simulations.runs.folders import RUNS, fresh

    config = _configuration(epsilon, workers or min(2, os.cpu_count() or 1))
    place = fresh(out or RUNS / "demo")
    click.echo(
        f"Made-up people rate made-up films; {config.algorithm} learns a board from them, then {_BESIDE} another, "
        "for comparison ...",
        err=True,
    )
    problem = load_problem(config)
    beside = (_BESIDE, *floor_names(config.feedback))
    _, text = run(config, place, resume=False, problem=problem, beside=beside)
    own = problem.train.rows(_EXAMPLE_PERSON, _EXAMPLE_PERSON + 1)
    board = open_board(place)
    _write_ratings(own, board.catalogue, place / _EXAMPLE_FILE)
    click.echo(f"{text}\n\n{_example(own, board)}\n\n{_next_steps(place)}")


def _configuration(epsilon: float, workers: int) -> "SimulationConfig":
    from fedboard.simulations.config import parse_config

    raw: dict[str, Any] = {"privacy": {"epsilon": epsilon}, "run": {"workers": workers}}
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
    found = [(titles[r.item], f"{r.score:.1f}") for r in recommend(own, board, k=_EXAMPLE_ITEMS)]
    return "\n\n".join(
        (
            f"One of them rated {own.n_ratings} films, these highest:\n{aligned(('', ''), liked, right=(1,))}",
            "Her own device, from the public board and her own ratings, recommends (predicted rating):\n"
            + aligned(("", ""), found, right=(1,)),
        )
    )


def _next_steps(place: Path) -> str:
    steps = [
        (f"fedboard certificate verify {place}", "recompute the guarantee"),
        (f"fedboard recommend {place / _EXAMPLE_FILE} {place}", "her recommendations again"),
        ("fedboard sweep --data synthetic --algorithms residual,als", "quality against epsilon"),
        ("fedboard simulate --data PATH --epsilon 5", "your own ratings"),
    ]
    return "Try next:\n" + aligned(("", ""), [(f"  {command}", what) for command, what in steps])
