"""The options that every private question has, and which of them are for a data set alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from fedboard.cli.columns import COLUMNS
from fedboard.cli.counts import WORKERS
from fedboard.cli.style.documents import JSON

Command = TypeVar("Command", bound=Callable[..., object])

OF_DATA = {
    "data_format": "--format",
    "columns": "--columns",
    "rating_range": "--rating-range",
    "ledger": "--ledger",
    "population": "--population",
    "budget": "--budget",
    "delta": "--delta",
    "adjacency": "--adjacency",
    "noise": "--noise",
    "seed": "--seed",
    "workers": "--workers",
}
"""What a fleet has in its own settings: parameter to option."""

_SUBJECTS = click.Choice(["ratings", "counts", "norms"])


def question_options(command: Command) -> Command:
    """Options that say whom to ask, about what, at which cost and who pays."""
    for option in reversed(
        (
            click.option("--data", metavar="PATH|NAME", help="Ratings, or `synthetic`."),
            click.option(
                "--fleet",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help="Instead of data: the fleet.toml of a server, whose devices are asked. Its [queries] pays.",
            ),
            click.option(
                "--no-wait", is_flag=True, help="Of a fleet: put the question and end; see `ask answers`."
            ),
            click.option(
                "--format", "data_format", metavar="NAME", help="Format, where it is not recognised."
            ),
            COLUMNS,
            click.option(
                "--rating-range", metavar="LOW,HIGH", help="Public range of ratings, for generic tables."
            ),
            click.option(
                "--of",
                "subject",
                type=_SUBJECTS,
                default="ratings",
                show_default=True,
                help="Ratings; each user's number of ratings; the L2 norm of her ratings less the scale's centre.",
            ),
            click.option("--epsilon", type=float, required=True, help="What this question costs by itself."),
            click.option(
                "--bound",
                type=float,
                metavar="H",
                help="Ratings beyond which a user weighs no more; a public guess, or the answer to "
                "`quantile --of counts`.  [default: 20]",
            ),
            click.option(
                "--highest",
                type=float,
                metavar="X",
                help="Largest number that counts.  [default: 1000; norms: 100]",
            ),
            click.option(
                "--ledger", type=click.Path(path_type=Path), metavar="FILE", help="Pays; made with --budget."
            ),
            click.option(
                "--population",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Account of these users; pays too.",
            ),
            click.option(
                "--budget", type=float, metavar="EPSILON", help="Of a new --ledger, all questions together."
            ),
            click.option("--delta", type=float, help="Of a new --ledger.  [default: 1e-5]"),
            click.option(
                "--adjacency",
                type=click.Choice(["add-remove", "replace"]),
                help="Of a new --ledger.  [default: add-remove]",
            ),
            click.option(
                "--mechanism",
                type=click.Choice(["auto", "pure", "gaussian"]),
                default="auto",
                show_default=True,
                help="auto: pure (delta 0) while the account holds pure releases only.",
            ),
            click.option(
                "--noise", type=click.Choice(["secure", "seeded"]), default="secure", show_default=True
            ),
            click.option("--seed", type=int, help="Of seeded noise, which protects nobody."),
            click.option(
                "--workers",
                type=WORKERS,
                default=1,
                help="Processes; never changes the answer.",
            ),
            click.option(
                "--certificate",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help="Write it there.",
            ),
            JSON,
        )
    ):
        command = option(command)
    return command
