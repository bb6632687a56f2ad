"""``fedboard client``: a device takes part in training, and becomes a member of a fleet before."""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Event

import click

from fedboard.cli.groups import Commands
from fedboard.client.starting import OF_SERVERS, lives_on, start_quickly
from fedboard.common.errors import InputError


def take_part(config: Path, *, once: bool) -> None:
    """Be the device until Ctrl-C, or for one answer."""
    start_quickly(unused=OF_SERVERS)
    from fedboard.client.participation.config import load_device, open_device

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

    from fedboard.client.participation.connection import Tally
    from fedboard.client.participation.node import Node

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


_JOIN_EXAMPLES = """\b
Examples:
  fedboard client join --invitation ann.invite --out my-device --ratings my-ratings.csv --run
  fedboard client join https://fleet.example.org:8443 fb1-... --epsilon 3
"""


@click.command(epilog=_JOIN_EXAMPLES)
@click.argument("url", required=False)
@click.argument("token", required=False)
@click.option(
    "--invitation",
    type=click.Path(path_type=Path),
    help="File with both, in place of them: words of a command line are seen by other accounts.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default=True,
    help="Folder of the device, new or made by `fedboard ratings init`.",
)
@click.option("--epsilon", type=float, help="Your limit over all runs.  [default: what this training asks]")
@click.option("--delta", type=float, help="Delta of that limit.  [default: the training's]")
@click.option(
    "--ratings", type=click.Path(path_type=Path), help="Your ratings, a CSV file; they stay on this device."
)
@click.option("--run", is_flag=True, help="Take part at once, until Ctrl-C.")
@click.pass_context
def join(
    context: click.Context,
    url: str | None,
    token: str | None,
    invitation: Path | None,
    folder: Path,
    epsilon: float | None,
    delta: float | None,
    ratings: Path | None,
    run: bool,
) -> None:
    """Join a fleet with an invitation, URL and TOKEN, and write the configuration of this device.

    The device makes its own key, which never leaves it. It takes the server's keys from the server that the token
    names by their digest, and tells its secret to nobody else. What it gives is in device.toml: read it before you
    start.
    """
    from fedboard.client.participation.joining import join as joined
    from fedboard.common.messages.enrolment import Invitation

    if invitation is not None and url is None:
        try:
            text = invitation.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{invitation}: no invitation can be read there") from error
        found = Invitation.parse_text(text, source=str(invitation))
    elif invitation is None and url is not None and token is not None:
        found = Invitation.parse(url, token)
    else:
        raise InputError("give URL and TOKEN, or --invitation FILE")
    member = joined(found, folder, epsilon=epsilon, delta=delta)
    asks = member.introduction
    click.echo(
        f"joined as {member.name}: training {asks.run} ({asks.task}, protocol {asks.protocol}) asks epsilon "
        f"{asks.epsilon:g} at delta {asks.delta:g} of everybody"
    )
    click.echo(f"{member.device}: read [policy], it says what this device gives at most")
    if ratings is not None:
        from fedboard.cli.device.ratings import import_ratings

        whole = {"columns": None, "place": None}
        context.invoke(import_ratings, file=ratings, device=member.device, **whole)
    if run:
        take_part(member.device, once=False)
        return
    click.echo("then:")
    if ratings is None:
        click.echo(f"  fedboard ratings import FILE.csv --device {member.device}")
    click.echo(f"  fedboard client --config {member.device}")


_EXAMPLES = """\b
Examples:
  fedboard client join --invitation ann.invite --out my-device
  fedboard client --config my-device/device.toml
"""


@click.group(cls=Commands, invoke_without_command=True, epilog=_EXAMPLES)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("device.toml"),
    envvar="FEDBOARD_DEVICE",
    show_default=True,
    help="Configuration of this device.",
)
@click.option("--once", is_flag=True, help="End after one answer.")
@click.pass_context
def client(context: click.Context, config: Path, once: bool) -> None:
    """Take part in training: answer what the server asks, as far as this device's policy allows.

    A device becomes a member of a fleet by `fedboard client join`. It stays until Ctrl-C or SIGTERM and waits for
    a server that is away. Nothing that a server sends is executed; what a server gets is listed by `fedboard
    status`.
    """
    if context.invoked_subcommand is None:
        take_part(config, once=once)


client.add_command(join)
