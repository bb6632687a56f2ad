"""``fedboard protocols``: whom each aggregation protocol asks to be trusted, and what it costs."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.counts import PEOPLE, WORKERS
from fedboard.cli.names import NamedOption, default_algorithm
from fedboard.cli.research.auditing.progress import stepping
from fedboard.cli.research.configuration import assigned, configure, data_options, listed, model_options
from fedboard.cli.style.documents import JSON, STDOUT, document, file_document, json_or_file
from fedboard.cli.style.groups import Commands
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.protocol import AggregationProtocol

_SAMPLE_FLEET = 1000
_SYNTHETIC_USERS, _SPARE = 400, 1.25
_EXAMPLES = """\b
Examples:
  fedboard protocols list
  fedboard protocols show secure-sum
  fedboard protocols compare --data ml-1m/ --rank 8 --json costs.json
  fedboard protocols compare --items 20000 --rank 32        costs alone, on made-up users
"""


@click.group(cls=Commands, epilog=_EXAMPLES)
def protocols() -> None:
    """Whom must you trust? The ways to add up what users give, side by side."""


@protocols.command(name="list")
@JSON
def list_(as_json: bool) -> None:
    """Say in a line of each protocol who is trusted and what it costs."""
    from fedboard.cli.research.protocols_text import listed_cards, listing
    from fedboard.common.protocols.registry import PROTOCOL_NAMES

    if as_json:
        document({"protocols": listed_cards(PROTOCOL_NAMES)})
    else:
        click.echo(listing(PROTOCOL_NAMES))


@protocols.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--devices",
    "clients",
    type=PEOPLE,
    default=_SAMPLE_FLEET,
    show_default=True,
    help="Of a sample fleet, one user each.",
)
@JSON
def show(name: str, clients: int, as_json: bool) -> None:
    """State in full who sees what, and the parameters for a fleet of that size."""
    from fedboard.cli.research.protocols_text import shown

    protocol = _sample(name, clients)
    if as_json:
        document(_statement(protocol))
    else:
        click.echo(shown(name, protocol, clients=clients))


@protocols.command(
    epilog="""\b
Examples:
  fedboard protocols compare --data ml-1m/ --rank 8 --epsilon 1,5 --json costs.json
  fedboard protocols compare --items 20000 --rank 32 --ratings 100 --sessions 40,320
  fedboard protocols compare --data ml-1m/ --protocols trusted,secure-sum --set settings.rounds=4
"""
)
@data_options
@click.option("--items", type=int, help="Instead of --data: size of a catalogue; costs alone.")
@click.option("--ratings", type=float, default=100.0, show_default=True, help="With --items: a user's.")
@click.option("--clients", type=PEOPLE, help="Host all users of the data.  [default: one for each user]")
@click.option(
    "--sessions",
    metavar="N,M",
    help="Clients of the sessions that are run and timed.  [default: 10,40,160, as far as they fit]",
)
@click.option("--algorithm", "algorithms", cls=NamedOption, help="One or two: A,B.", names=default_algorithm)
@click.option("--epsilon", default="1,5", show_default=True, metavar="E,F", help="Budgets to simulate.")
@click.option("--protocols", "names", metavar="P,Q", help="Which.  [default: all]")
@click.option(
    "--dropout",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    help="Share of the clients that vanish in a round.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME.KEY=VALUE",
    help="A protocol's own parameter, e.g. two-server.most_items=128; repeatable.",
)
@click.option("--seed", type=int, help="Of the noise and the first factors; the same for all protocols.")
@click.option("--workers", type=WORKERS, help="Processes of the simulations.")
@model_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of runs and numbers; give the same to go on.  [default: a new one, runs/protocols]",
)
@json_or_file
def compare(
    items: int | None,
    ratings: float,
    clients: int | None,
    sessions: str | None,
    algorithms: str | None,
    epsilon: str,
    names: str | None,
    dropout: float,
    settings: tuple[str, ...],
    out: Path | None,
    json_file: Path | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Measure what each protocol costs, and simulate what it leaves of the accuracy.

    Sessions of the stated numbers of clients are run for real, cryptography included, and timed in CPU seconds.
    Nothing is extrapolated. Errors of prediction come from runs on the data in which everybody stays and masks are
    left out, since they cancel.
    """
    from fedboard.cli.research.protocols_text import compared
    from fedboard.common.protocols.registry import PROTOCOL_NAMES
    from fedboard.simulations.comparing.compare import Comparison
    from fedboard.simulations.comparing.compare import compare as run_comparison
    from fedboard.simulations.runs.folders import RUNS, fresh

    if (items is None) == (flags["data"] is None):
        raise InputError("say what to compare on: --data PATH, or --items M for costs alone")
    base = {} if items is None else _made_up(items, ratings)
    wanted = Comparison(
        config=configure(base, flags, assignments, source="the flags"),
        algorithms=listed(algorithms, str, "--algorithm") if algorithms else ("",),
        protocols=PROTOCOL_NAMES if names is None else listed(names, str, "--protocols"),
        epsilons=listed(epsilon, float, "--epsilon") if items is None else (),
        ratings=None if items is None else ratings,
        clients=clients,
        sessions=listed(sessions, int, "--sessions") if sessions else None,
        dropout=dropout,
        settings=_of_protocols(settings),
    )
    place = out or fresh(RUNS / "protocols")
    with stepping() as on_step:
        record = run_comparison(wanted, place, on_step)
    if json_file is not None:
        file_document(record, json_file)
    if json_file != STDOUT:
        click.echo("\n\n".join([*(compared(name, line) for name, line in record["algorithms"].items())]))
        click.echo(f"\nWritten to {place}/ (comparison.json)")


def _made_up(items: int, ratings: float) -> dict[str, Any]:
    """Synthetic users, few: their costs are looked at, nothing is learnt."""
    synthetic = {
        "n_users": _SYNTHETIC_USERS,
        "n_items": items,
        "mean_ratings_per_user": _SPARE * ratings,  # some of them are held out
    }
    return {"data": {"source": "synthetic", "synthetic": synthetic}}


def _of_protocols(settings: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in settings:
        key, value = assigned(text)
        name, point, parameter = key.rpartition(".")
        if not point or not name:
            raise InputError(
                f"--setting needs NAME.KEY=VALUE, such as two-server.most_items=128, got {text!r}"
            )
        found.setdefault(name, {})[parameter] = value
    return found


def _sample(name: str, clients: int) -> "AggregationProtocol":
    from fedboard.simulations.sessions.choice import chosen_class

    return chosen_class(name).sized(clients=clients, users=clients, settings={})


def _statement(protocol: "AggregationProtocol") -> Mapping[str, Any]:
    return {
        "name": protocol.name,
        "noise_at": str(protocol.noise_at),
        "trust": asdict(protocol.trust),
        "parameters": dict(protocol.parameters),
    }
