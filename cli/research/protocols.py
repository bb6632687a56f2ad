"""``fedboard protocols``: whom each aggregation protocol asks to be trusted."""

from dataclasses import asdict
from textwrap import fill

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.options import PEOPLE
from fedboard.cli.text import aligned

_SAMPLE_FLEET = 1000
_WIDTH = 100


@click.group(cls=Commands)
def protocols() -> None:
    """Whom must you trust? The ways to add up what users give."""


@command("fedboard protocols show", "fedboard protocols show secure-sum", group=protocols)
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
    from fedboard.common.protocols.registry import PROTOCOL_NAMES
    from fedboard.simulations.sessions.choice import chosen_card, chosen_class

    if name is None:
        cards = {
            known: {
                "trusted_for_privacy": card.trusted,
                "server_sees": card.server_sees,
                "bytes_by": card.bytes_by,
                "steps": card.steps,
            }
            for known in PROTOCOL_NAMES
            if (card := chosen_card(known))
        }
        head = ("protocol", "trusted for privacy", "a server sees of a user", "bytes up by", "steps")
        table = aligned(head, [(known, *told.values()) for known, told in cards.items()])
        listed = {"protocols": [{"name": known, **told} for known, told in cards.items()]}
        answer(listed, f"{table}\n\nIn full: fedboard protocols show NAME", as_json=as_json)
        return
    protocol = chosen_class(name).sized(clients=clients, users=clients, settings={})
    record = {
        "name": protocol.name,
        "noise_at": str(protocol.noise_at),
        "trust": asdict(protocol.trust),
        "parameters": dict(protocol.parameters),
    }
    said = [
        f"{key.replace('_', ' ').capitalize()}\n{fill(text, _WIDTH, initial_indent='  ', subsequent_indent='  ')}"
        for key, text in asdict(protocol.trust).items()
    ]
    card = chosen_card(name)
    meanings = {**card.meanings, **card.optional}
    unset = {key: "(unset)" for key in card.optional if key not in protocol.parameters}
    rows = [(key, value, meanings.get(key, "")) for key, value in {**protocol.parameters, **unset}.items()]
    parameters = f"Parameters for {clients:,} clients of one user each\n" + aligned(("", "", ""), rows)
    text = "\n\n".join([f"{name}: noise drawn at {protocol.noise_at}", *said, parameters])
    answer(record, text, as_json=as_json)
