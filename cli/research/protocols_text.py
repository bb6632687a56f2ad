"""Aggregation protocols in words and tables."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from textwrap import fill
from typing import Any

from fedboard.cli.text import aligned, byte_text
from fedboard.common.protocol import AggregationProtocol
from fedboard.simulations.sessions.choice import chosen_card

_WIDTH = 100
_HEAD = ("protocol", "clients", "up", "down", "client", "servers", "steps", "needed", "trusted for privacy")


def listing(names: Iterable[str]) -> str:
    """One line for each."""
    cards = {name: chosen_card(name) for name in names}
    rows = [(name, card.trusted, card.server_sees, card.bytes_by, card.steps) for name, card in cards.items()]
    head = ("protocol", "trusted for privacy", "a server sees of a user", "bytes up by", "steps")
    return f"{aligned(head, rows)}\n\nIn full: fedboard protocols show NAME"


def listed_cards(names: Iterable[str]) -> list[dict[str, Any]]:
    """The same, JSON-able."""
    cards = {name: chosen_card(name) for name in names}
    return [
        {
            "name": name,
            "trusted_for_privacy": card.trusted,
            "server_sees": card.server_sees,
            "bytes_by": card.bytes_by,
            "steps": card.steps,
        }
        for name, card in cards.items()
    ]


def shown(name: str, protocol: AggregationProtocol, *, clients: int) -> str:
    """The whole statement."""
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


def compared(algorithm: str, record: Mapping[str, Any]) -> str:
    """The table of one algorithm."""
    lines = record["protocols"]
    epsilons = list(dict.fromkeys(e for line in lines.values() for e in line["rmse_by_epsilon"]))
    rows = [row for name, line in lines.items() for row in _rows(name, line, epsilons)]
    head = [*_HEAD[:-1], *(f"RMSE at {epsilon}" for epsilon in epsilons), _HEAD[-1]]
    table = aligned(head, rows, right=set(range(1, len(head) - 1)))
    errors = [f"{name}: {line['error']}" for name, line in lines.items() if "error" in line]
    return "\n\n".join([_about(algorithm, record), table, *errors, _NOTE])


_NOTE = (
    "Measured in sessions of so many clients, some of whom vanish. Up and down: a user's bytes of one round, the\n"
    "board included. Seconds of CPU on one core of this machine, of one client and of all servers together.\n"
    "Needed: clients whose contributions make a sum. Nothing is said of sizes that were not run: --sessions N,M."
)


def _about(algorithm: str, record: Mapping[str, Any]) -> str:
    hosted = "a user" if record["users_per_client"] == 1 else f"up to {record['users_per_client']:,} users"
    shown = any(line["rmse_by_epsilon"] for line in record["protocols"].values())
    errors = f"; errors of prediction are of {record['users']:,} users" if shown else ""
    return (
        f"{algorithm}: {record['items']:,} items, {record['numbers']:,} numbers a round; a client hosts {hosted} "
        f"with {record['ratings_per_client']:.0f} ratings\nand takes {_seconds(record['contribute_seconds'])} to "
        f"compute its rows, under any protocol{errors}"
    )


def _rows(name: str, line: Mapping[str, Any], epsilons: list[str]) -> list[list[str]]:
    """A row for each session; errors of prediction and trust stand in the first."""
    rmse = [_rounded(line["rmse_by_epsilon"].get(epsilon)) for epsilon in epsilons]
    costs = [_costs(session) for session in line["sessions"]] or [["-"] * 7]
    first, *others = costs
    return [
        [name, *first, *rmse, chosen_card(name).trusted],
        *(["", *other, *[""] * len(rmse), ""] for other in others),
    ]


def _costs(session: Mapping[str, Any]) -> list[str]:
    return [
        f"{session['clients']:,}",
        byte_text(session["bytes_up_per_user"]),
        byte_text(session["bytes_down_per_user"]),
        _seconds(session["client_seconds"]),
        _seconds(session["server_seconds"]),
        str(session["steps"]),
        f"{session['survivors_needed']:,}",
    ]


def _rounded(rmse: float | None) -> str:
    return "-" if rmse is None else f"{rmse:.4f}"


def _seconds(seconds: float) -> str:
    if seconds < 1.0:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 180.0:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 10_800 else f"{seconds / 3600:,.3g} h"
