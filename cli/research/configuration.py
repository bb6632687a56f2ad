"""From a TOML file, flags and ``--set`` to one checked configuration."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import option
from fedboard.cli.options import COLUMNS, RATING_RANGE, private_algorithms, rarely
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import PROTOCOL_NAMES, USUAL

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig

_BARE_WORD = re.compile(r"[\w./~][\w./:-]*")


def _formats() -> str:
    from fedboard.simulations.data import FORMATS

    return f"{', '.join(FORMATS)}."


_FLAGS = {
    "data": option(
        "Ratings: file, folder, zip or `synthetic`.",
        more="`synthetic:users=1e7` is as many made-up people as you like.",
        metavar="PATH|NAME",
    ),
    "data_format": option(
        "Format, where it is not recognised:", "--format", more=_formats, metavar="NAME", rare=True
    ),
    "columns": rarely(COLUMNS),
    "rating_range": RATING_RANGE,
    "titles": option("Item titles.", metavar="FILE"),
    "algorithm": option("How it learns; --help-all has the names.", more=private_algorithms, metavar="NAME"),
    "epsilon": option("Privacy budget of the run.  [default: 5]", type=float),
    "delta": option("Of the guarantee.  [default: 1e-5]", type=float, rare=True),
    "feedback": option("What a rating says.", type=click.Choice(["explicit", "implicit"])),
    "rounds": option(
        "Rounds, without those that prepare.",
        more="Of algorithms that go in steps: --set settings.steps=N.",
        type=int,
    ),
    "assignments": option(
        "Any key: settings.rank=8; repeatable.", "--set", multiple=True, metavar="KEY=VALUE"
    ),
    "noise": option(
        "`seeded` (no privacy) or `secure` (private).",
        more="Only seeded noise is reproducible.",
        type=click.Choice(["seeded", "secure"]),
    ),
    "participation": option(
        "Who takes part in a round: full, poisson:PROBABILITY; where neighbours replace each other also "
        "fixed-size:USERS or shuffled-cohorts:NUMBER.",
        metavar="KIND[:NUMBER]",
        rare=True,
    ),
    "population": option(
        "Account of these users over all runs; see fedboard ledger.", metavar="FILE", rare=True
    ),
    "seed": option("First factors, sampling and seeded noise.", type=int, rare=True),
    "workers": option("Processes; never changes the result.", type=int),
    "runtime": option(
        "Where clients run: the engine's processes, workers of a Ray cluster, a Flower grid in this process, or "
        "Flower's simulation on Ray; never changes the result.  [default: engine]",
        type=click.Choice(["engine", "ray", "in-process", "flower"]),
        rare=True,
    ),
    "protocol": option(
        f"How contributions become sums: {', '.join(PROTOCOL_NAMES)}, or your own as package.module:Class or "
        f"path/to/file.py:Class.  [default: {USUAL}]",
        metavar="NAME",
        rare=True,
    ),
}
"""Flags that are laid over a configuration; ``fedboard.simulations.config.KEYS`` has the key of each."""


def flags(*names: str, **others: Any) -> dict[str, Any]:
    """Some of the flags that are laid over a configuration, in this order; ``others`` say it differently."""
    return {name: others.get(name, _FLAGS[name]) for name in names}


def configure(
    base: Mapping[str, Any],
    flags: Mapping[str, Any],
    assignments: Iterable[str],
    *,
    source: str = "the flags",
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
    from fedboard.simulations.config import KEYS, configured

    given = {name: value for name, value in flags.items() if value is not None}
    if "participation" in given:
        from fedboard.simulations.runs.trainer import parse_participation

        given["participation"] = parse_participation(given["participation"])
    laid = [(KEYS[name], list(value) if isinstance(value, tuple) else value) for name, value in given.items()]
    return configured(base, [*laid, *(assigned(text) for text in assignments)], source=source)


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
