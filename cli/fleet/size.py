"""``fedboard size``: what a deployment needs, from the cost model."""

from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.names import NamedOption, default_algorithm
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned, byte_text

if TYPE_CHECKING:
    from fedboard.server.fleet.plan.costs import Carrier, Fleet, RoundCosts


_CARRYING = {"flower": "carrying it (SuperLink, proxy)", "direct": "carrying it (the door)"}


class _Number(click.ParamType[int]):
    """A whole number, which may be written as 1e6."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """From text."""
        try:
            number = float(value)
        except ValueError:
            number = 0.5
        if number != round(number) or not 1 <= number <= 1e12:
            self.fail(f"{value!r} is not a whole number from 1 to 1e12", param, ctx)
        return int(number)


def _sized_names() -> str:
    from fedboard.server.fleet.plan.costs import sized_algorithms

    return f"{', '.join(sized_algorithms())}. {default_algorithm()}"


@click.command(
    epilog="""\b
Examples:
  fedboard size --users 1e6 --items 20000 --rank 32
  fedboard size --users 1e6 --items 20000 --rank 32 --users-per-node 10000 --hours 0.1
  fedboard size --users 1e5 --items 3449 --carrier direct
"""
)
@click.option("--users", type=_Number(), required=True, help="Who take part in a round.")
@click.option("--items", type=_Number(), required=True, help="Of the catalogue.")
@click.option("--rank", type=_Number(), default=8, show_default=True, help="Factors per item.")
@click.option("--ratings", type=float, default=100.0, show_default=True, help="Per user, on average.")
@click.option(
    "--users-per-node", type=_Number(), default=1, show_default=True, help="1: phones; more: gateways."
)
@click.option(
    "--carrier",
    type=click.Choice(["flower", "direct"]),
    default="flower",
    show_default=True,
    help="By what devices fetch questions; direct: without Flower.",
)
@click.option("--algorithm", cls=NamedOption, metavar="NAME", help="What is learnt:", names=_sized_names)
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="How long a round may take.",
)
@JSON
def size(
    users: int,
    items: int,
    rank: int,
    ratings: float,
    users_per_node: int,
    carrier: "Carrier",
    algorithm: str | None,
    hours: float,
    as_json: bool,
) -> None:
    """Size a deployment: bytes, CPU and memory of a round, for devices and server.

    Bytes follow from the layout of the messages; seconds are those of one core of the machine that the guide names
    (see docs/guide/sizing.md), so take them as a scale, not as a promise.
    """
    from fedboard.common.tasks.registry import USUAL
    from fedboard.server.fleet.plan.costs import Fleet, round_costs

    fleet = Fleet(
        users=users,
        items=items,
        rank=rank,
        ratings_per_user=ratings,
        users_per_node=users_per_node,
        algorithm=algorithm or USUAL,
    )
    costs = round_costs(fleet, carrier=carrier)
    record = _record(fleet, costs, hours, carrier)
    document(record) if as_json else click.echo(_text(record))


def _record(fleet: "Fleet", costs: "RoundCosts", hours: float, carrier: str) -> dict[str, Any]:
    seconds = 3600.0 * hours
    busy = (costs.carry_seconds + costs.server_seconds) / seconds
    return {
        "nodes": fleet.nodes,
        "carrier": carrier,
        "form": costs.form,
        "per_node": {
            "bytes_down": costs.board_bytes,
            "bytes_up_factored": costs.factored_bytes_per_node,
            "bytes_up_dense": costs.dense_bytes_per_node,
            "cpu_seconds": costs.node_seconds,
        },
        "server": {
            "bytes_out": costs.server_bytes_out,
            "bytes_in": costs.server_bytes_in,
            "memory_bytes": costs.server_memory_bytes,
            "cpu_seconds_training": costs.server_seconds,
            "cpu_seconds_carrying": costs.carry_seconds,
        },
        "over_hours": {
            "hours": hours,
            "megabits_out_per_second": 8e-6 * costs.server_bytes_out / seconds,
            "megabits_in_per_second": 8e-6 * costs.server_bytes_in / seconds,
            "cores": busy,
            "shortest_poll_seconds_on_one_core": fleet.nodes * costs.poll_seconds / max(1.0 - busy, 0.0)
            if busy < 1.0
            else None,
        },
    }


def _text(record: dict[str, Any]) -> str:
    node, server, over = record["per_node"], record["server"], record["over_hours"]
    poll = over["shortest_poll_seconds_on_one_core"]
    rows = [
        ("nodes", f"{record['nodes']:,}"),
        ("a node gets", byte_text(node["bytes_down"])),
        ("a node sends as rows", byte_text(node["bytes_up_factored"])),
        ("a node sends as sums", byte_text(node["bytes_up_dense"])),
        ("  the smaller form", record["form"]),
        ("a node computes", _seconds(node["cpu_seconds"])),
        ("the server sends", byte_text(server["bytes_out"])),
        ("the server gets", byte_text(server["bytes_in"])),
        ("the training computes", _seconds(server["cpu_seconds_training"])),
        ("  and holds", byte_text(server["memory_bytes"])),
        (_CARRYING[record["carrier"]], _seconds(server["cpu_seconds_carrying"])),
        (
            f"over {over['hours']:g} h",
            f"{over['megabits_out_per_second']:,.1f} Mbit/s out, {over['megabits_in_per_second']:,.1f} in, "
            f"{over['cores']:,.2f} cores",
        ),
        (
            "nodes may ask for work",
            "every " + _seconds(poll) + " at the most often"
            if poll is not None
            else "never: one core does not bear it; take fewer nodes or more hours",
        ),
    ]
    return aligned(("", ""), rows)


def _seconds(seconds: float) -> str:
    if seconds < 1.0:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:,.3g} s" if seconds < 600 else f"{seconds / 3600:,.3g} h"
