"""``fedboard client``: the process of a device that takes part in training."""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Event

import click

from fedboard.common.errors import InputError


@click.command(epilog="Example: fedboard client --config my-device/device.toml")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("device.toml"),
    envvar="FEDBOARD_DEVICE",
    show_default=True,
    help="Configuration of this device.",
)
@click.option("--once", is_flag=True, help="End after one answer.")
def client(config: Path, once: bool) -> None:
    """Take part in training: answer what the server asks, as far as this device's policy allows.

    It stays until Ctrl-C or SIGTERM and waits for a server that is away. Nothing that a server sends is executed;
    what a server gets is listed by `fedboard status`.
    """
    from fedboard.client.device.config import load_device, open_device

    device = load_device(config)
    server = device.server
    if server is None:
        raise InputError(f"{config}: no [server] is given, so there is nobody to ask for work")
    if server.question_key is None:
        raise InputError(
            f"{config}: [server] names no question_key, so no question would be answered; it is the file "
            "question-signing.pub of whoever runs the server (made by: fedboard keys questions)"
        )
    with open_device(config):
        pass  # what is wrong with ratings, policy or ledger is said now and not to a server

    from fedboard.client.fleet.answering_app import make_client_app
    from fedboard.client.fleet.client_app import open_configured
    from fedboard.client.fleet.node import NodeSettings, Tally, WarmNode

    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if device.policy.published_only and None in (device.board.source, device.board.public_key):
        logging.warning(
            "published_only: [board] names no source and public_key, "
            "so boards get here by `fedboard board fetch` alone"
        )
    tally = Tally()
    node = WarmNode(
        NodeSettings(
            server=server.address,
            root_certificate=server.ca_certificate,
            private_key=server.node_key,
            poll_seconds=server.poll_seconds,
            largest=server.max_question_megabytes << 20,
            device=str(config.absolute()),
        ),
        make_client_app(open_configured, refused=tally.refuse),
        tally=tally,
        idle=device.answers().expire,
    )
    with suppress(KeyboardInterrupt):
        node.run(Event(), messages=1 if once else None)
    click.echo(
        f"{tally.asked} questions: {tally.given} answered, {tally.refused} refused, {tally.failed} failed; "
        f"{tally.undelivered} replies were not taken by the server"
    )
