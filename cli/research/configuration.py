"""From a TOML file, flags and ``--set`` to one checked configuration."""

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fedboard.cli.columns import COLUMNS, parse_columns
from fedboard.cli.names import NamedOption
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig

Command = TypeVar("Command", bound=Callable[..., object])

_BARE_WORD = re.compile(r"[\w./~][\w./:-]*")


def _formats() -> str:
    from fedboard.simulations.data import FORMATS

    return f"{', '.join(FORMATS)}."


format_option = click.option(
    "--format",
    "data_format",
    cls=NamedOption,
    metavar="NAME",
    help="Format, where it is not recognised:",
    names=_formats,
)
"""Which reader reads the ratings."""


SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any key of the configuration, e.g. settings.clip_norm=0.5; repeatable.",
)
"""What no other option says."""


def table_options(command: Command) -> Command:
    """Options that say how a table is to be read."""
    scale = click.option(
        "--rating-range", metavar="LOW,HIGH", help="Public range of ratings, for generic tables."
    )
    return COLUMNS(scale(command))


def file_options(command: Command) -> Command:
    """The same, where no configuration says the rest."""
    titles = click.option("--titles", metavar="FILE", help="Item titles.")
    return format_option(table_options(titles(command)))


def data_options(command: Command) -> Command:
    """Options that say which ratings; the rest is said by keys of the section ``data``."""
    named = click.option(
        "--data",
        metavar="PATH|NAME",
        help="Ratings: a file, folder or zip archive, `synthetic`, or "
        "`synthetic:users=1e7`: as many made-up people as you like.",
    )
    return named(table_options(command))


def model_options(command: Command) -> Command:
    """Options that say what is learnt and under which promise."""
    for option in reversed(
        (
            click.option(
                "--feedback", type=click.Choice(["explicit", "implicit"]), help="What a rating says."
            ),
            click.option("--delta", type=float, hidden=True, help="Of the guarantee.  [default: 1e-5]"),
            click.option("--noise", type=click.Choice(["seeded", "secure"]), help="Repeatable, or private."),
            click.option("--rank", type=int, hidden=True, help="Length of the vectors."),
            click.option(
                "--rounds",
                type=int,
                help="Rounds, without those that prepare; of algorithms that go in steps: --set settings.steps=N.",
            ),
            SET,
        )
    ):
        command = option(command)
    return command


def configure(
    base: Mapping[str, Any], flags: Mapping[str, Any], assignments: Iterable[str], *, source: str
) -> "SimulationConfig":
    """Lay flags and assignments over a configuration, and check the whole.

    Args:
        base: as read from a file.
        flags: parameter name -> value; None where it was not given.
        assignments: ``key=value`` texts; they win over flags.
        source: what messages call the configuration.

    Raises:
        InputError: a key or value that is not one.
    """
    from fedboard.simulations.config import configured

    settings = [*_given(flags), *(assigned(text) for text in assignments)]
    return configured(base, settings, source=source)


def listed(text: str, kind: Callable[[str], Any], what: str) -> tuple[Any, ...]:
    """A comma-separated list.

    Raises:
        InputError: empty, an entry of another kind, or an entry twice.
    """
    try:
        values = tuple(kind(part.strip()) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or "" in values or len(set(values)) < len(values):
        raise InputError(f"{what} must be a comma-separated list without repetitions, got {text!r}")
    return values


def parse_range(text: str) -> tuple[float, float]:
    """``LOW,HIGH`` as two numbers.

    Raises:
        InputError: not two numbers, the lower one first.
    """
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not low < high:
        raise InputError(f"--rating-range must be LOW,HIGH with LOW below HIGH, such as 1,5, got {text!r}")
    return low, high


def _given(flags: Mapping[str, Any]) -> list[tuple[str, Any]]:
    from fedboard.simulations.config import KEYS

    given = {name: value for name, value in flags.items() if value is not None}
    if "rating_range" in given:
        given["rating_range"] = list(parse_range(given["rating_range"]))
    if "columns" in given:
        given["columns"] = parse_columns(given["columns"])
    if "participation" in given:
        from fedboard.simulations.runs.trainer import parse_participation

        given["participation"] = parse_participation(given["participation"])
    return [(KEYS[name], value) for name, value in given.items()]


def assigned(text: str, *, option: str = "--set") -> tuple[str, Any]:
    """``KEY=VALUE`` with a TOML value, or a bare word.

    Args:
        text: as it was typed.
        option: what messages call it.

    Raises:
        InputError: not that.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise InputError(f"{option} needs KEY=VALUE, such as settings.clip_norm=0.5, got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        if _BARE_WORD.fullmatch(value.strip()):  # so that words need no quotes within the shell's quotes
            return key.strip(), value.strip()
    raise InputError(f"{option} {key.strip()}: {value!r} is not a TOML value; texts need quotes")
