"""``fedboard protocols``: whom each aggregation protocol asks to be trusted."""

from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, document
from fedboard.cli.options import PEOPLE
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.common.protocol import AggregationProtocol

_SAMPLE_FLEET = 1000
_WIDTH = 100
_EXAMPLES = """\b
Examples:
  fedboard protocols show
  fedboard protocols show secure-sum
"""


@click.group(cls=Commands, epilog=_EXAMPLES)
def protocols() -> None:
    """Whom must you trust? The ways to add up what users give."""


@command(group=protocols)
def show(
    name: str | None = argument("[NAME]"),
    clients: int = option(
        "Of a sample fleet, one user each.", "--devices", type=PEOPLE, default=_SAMPLE_FLEET
    ),
    as_json: bool = JSON,
) -> None:
    """State in full who sees what under NAME, and its parameters for a fleet of that size.

    Without NAME, say in a line of each protocol who is trusted and what its bytes grow with.
    """
    from fedboard.simulations.sessions.choice import chosen_class

    if name is None:
        _list(as_json=as_json)
        return
    protocol = chosen_class(name).sized(clients=clients, users=clients, settings={})
    if as_json:
        document(
            {
                "name": protocol.name,
                "noise_at": str(protocol.noise_at),
                "trust": asdict(protocol.trust),
                "parameters": dict(protocol.parameters),
            }
        )
    else:
        click.echo(_shown(name, protocol, clients=clients))


def _list(*, as_json: bool) -> None:
    from fedboard.common.protocols.registry import PROTOCOL_NAMES
    from fedboard.simulations.sessions.choice import chosen_card

    cards = {
        name: {
            "trusted_for_privacy": card.trusted,
            "server_sees": card.server_sees,
            "bytes_by": card.bytes_by,
            "steps": card.steps,
        }
        for name in PROTOCOL_NAMES
        if (card := chosen_card(name))
    }
    if as_json:
        document({"protocols": [{"name": name, **told} for name, told in cards.items()]})
        return
    head = ("protocol", "trusted for privacy", "a server sees of a user", "bytes up by", "steps")
    table = aligned(head, [(name, *told.values()) for name, told in cards.items()])
    click.echo(f"{table}\n\nIn full: fedboard protocols show NAME")


def _shown(name: str, protocol: "AggregationProtocol", *, clients: int) -> str:
    """The whole statement."""
    from fedboard.simulations.sessions.choice import chosen_card

    said = [
        f"{key.replace('_', ' ').capitalize()}\n{fill(text, _WIDTH, initial_indent='  ', subsequent_indent='  ')}"
        for key, text in asdict(protocol.trust).items()
    ]
    card = chosen_card(name)
    meanings = {**card.meanings, **card.optional}
    rows = [(key, str(value), meanings.get(key, "")) for key, value in protocol.parameters.items()]
    rows += [
        (key, "(unset)", meaning) for key, meaning in card.optional.items() if key not in protocol.parameters
    ]
    parameters = f"Parameters for {clients:,} clients of one user each\n" + aligned(("", "", ""), rows)
    return "\n\n".join([f"{name}: noise drawn at {protocol.noise_at}", *said, parameters])
