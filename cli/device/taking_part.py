"""A device that takes part: its process asks for work and answers until it is told to stop."""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from fedboard.client.starting import OF_SERVERS, lives_on, start_quickly
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.client.device.config import DeviceConfig
    from fedboard.client.device.sections import Server
    from fedboard.client.node.node import Node
    from fedboard.client.node.tally import Tally


def take_part(config: Path, *, once: bool) -> None:
    """Be the device until Ctrl-C, or for one answer."""
    start_quickly(unused=OF_SERVERS)
    from fedboard.client.device.config import load_device, open_device

    device = load_device(config)
    server = device.server
    if server is None:
        raise InputError(f"{config}: no [server] is given, so there is nobody to ask for work")
    if server.question_key is None:
        raise InputError(
            f"{config}: [server] names no question_key, so no question would be answered; it is the file "
            "questions.pub of whoever runs the server (fedboard client join gets it)"
        )
    with open_device(config):
        pass  # what is wrong with ratings, policy or ledger is said now and not to a server

    from fedboard.client.node.tally import Tally

    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    wanted = "published_only" if device.policy.published_only else "witnesses"
    needed = device.policy.published_only or device.witnesses is not None
    if needed and None in (device.board.source, device.board.public_key):
        logging.warning(
            "%s: [boards] names no source and public_key, so boards get here by `fedboard board fetch` alone",
            wanted,
        )
    tally = Tally()
    node = _node(config, device, server, tally)
    lives_on()
    with suppress(KeyboardInterrupt):
        node.run(Event(), messages=1 if once else None)
    click.echo(
        f"{tally.asked} questions: {tally.given} answered, {tally.refused} refused, {tally.failed} failed; "
        f"{tally.undelivered} replies were not taken by the server; {tally.traffic.sent:,} bytes sent, "
        f"{tally.traffic.received:,} received"
    )


def _node(config: Path, device: "DeviceConfig", server: "Server", tally: "Tally") -> "Node":
    """What asks the server for work."""
    from fedboard.client.device.config import open_device
    from fedboard.client.node.node import Node
    from fedboard.client.node.settings import NodeSettings

    settings = NodeSettings(
        server=server.address,
        authority=server.authority,
        key=server.key,
        largest=server.max_question_megabytes << 20,
    )
    return Node(settings, lambda: open_device(config), tally=tally, idle=device.answers().expire)
