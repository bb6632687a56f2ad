"""A device that takes part: its process asks for work and answers until it is told to stop."""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Event

import click

from fedboard.client.starting import OF_SERVERS, lives_on, start_quickly
from fedboard.common.errors import InputError


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

    from fedboard.client.node.connection import Tally
    from fedboard.client.node.node import Node

    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    wanted = "published_only" if device.policy.published_only else "witnesses"
    needed = device.policy.published_only or device.witnesses is not None
    if needed and None in (device.board.source, device.board.public_key):
        logging.warning(
            "%s: [boards] names no source and public_key, so boards get here by `fedboard board fetch` alone",
            wanted,
        )
    tally = Tally()
    node = Node(server, lambda: open_device(config), tally=tally, idle=device.answers().expire)
    lives_on()
    with suppress(KeyboardInterrupt):
        node.run(Event(), messages=1 if once else None)
    click.echo(
        f"{tally.asked} questions: {tally.given} answered, {tally.refused} refused; "
        f"{tally.undelivered} replies were not taken by the server; {tally.traffic.sent:,} bytes sent, "
        f"{tally.traffic.received:,} received"
    )
