"""The limits of ``fedboard board serve`` as options."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fedboard.server.publishing.limits import Limits

Command = TypeVar("Command", bound=Callable[..., Any])


def _limit(flag: str, default: float, text: str) -> Callable[[Command], Command]:
    """A number that may be 0 for no limit."""
    kind = click.IntRange(min=0) if isinstance(default, int) else click.FloatRange(min=0)
    return click.option(flag, type=kind, default=default, show_default=True, help=text)


_OPTIONS = (
    click.option(
        "--rate",
        type=click.FloatRange(min=0, min_open=True),
        default=5000.0,
        show_default=True,
        help="Requests per second, all readers together.",
    ),
    _limit("--rate-per-address", 50.0, "Requests per second from one address; 0: no limit."),
    _limit(
        "--downloads-per-address", 100, "Downloads under way to one address, of 1000 in all; 0: no limit."
    ),
    _limit("--connections-per-address", 256, "Connections from one address; 0: no limit."),
    click.option(
        "--connections",
        type=click.IntRange(min=1),
        help="Connections in all.  [default: as many as may be opened, 12000 at most]",
    ),
    _limit("--least-rate", 16384.0, "Bytes per second below which a download is cut; 0: never."),
    click.option(
        "--behind-proxy",
        is_flag=True,
        help="All readers have the address of a proxy: no limit of one address holds. The proxy must have its own.",
    ),
)


def limit_options(command: Command) -> Command:
    """Add them all."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def limits_of(options: dict[str, Any]) -> "Limits":
    """The limits that the options say."""
    from fedboard.server.publishing.limits import Limits

    limits = Limits(
        requests_per_second=options["rate"],
        requests_per_second_per_address=options["rate_per_address"],
        streams_per_address=options["downloads_per_address"],
        connections=options["connections"],
        connections_per_address=options["connections_per_address"],
        least_bytes_per_second=options["least_rate"],
    )
    return limits.behind_proxy() if options["behind_proxy"] else limits
