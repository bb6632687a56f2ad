"""The option ``--live`` of commands that run for a while, and the page that they then serve."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedboard.common.wire.live.feed import Source
    from fedboard.common.wire.live.place import Place
    from fedboard.server.operating.live.run_source import RunSource

TRACK = click.option(
    "--track",
    "trackers",
    type=click.Choice(["mlflow", "wandb", "tensorboard"]),
    multiple=True,
    help="Tell a tracker what is booked, and of a simulation its metrics, labelled so. May "
    "be given several times; each is a package that you install.",
)
LIVE = click.option(
    "--live",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value="usual",  # common.wire.live.place.USUAL
    help="Serve a page that shows how it is getting on, on this machine alone unless HOST says otherwise.",
)


@contextmanager
def serving(place: "Place", source: "Source") -> Iterator[str]:
    """Serve a live page until the block ends, and say where, on stderr; its address.

    Raises:
        InputError: the address cannot be used.
    """
    from fedboard.common.wire.live.place import warning_of
    from fedboard.common.wire.live.serving import LiveServer

    warning = warning_of(place)
    if warning is not None:
        click.echo(f"WARNING: {warning}", err=True)
    with LiveServer(place, source) as server:
        click.echo(f"live page: {server.address}", err=True)
        yield server.address


@contextmanager
def tracking(source: "RunSource", trackers: Sequence[str]) -> Iterator[None]:
    """Tell trackers of a run until the block ends; nothing without any.

    Args:
        source: what is read of the run, for this alone.
        trackers: their names.

    Raises:
        InputError: one is not installed.
    """
    if not trackers:
        yield
        return
    from fedboard.server.operating.tracking.following import Follower
    from fedboard.server.operating.tracking.sinks import open_sink, require_installed

    for name in trackers:
        require_installed(name)
    opened = [partial(open_sink, name) for name in trackers]
    with Follower(source, opened, say=partial(click.echo, err=True)):
        yield
