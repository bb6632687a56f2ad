"""``fedboard client``: a device becomes a member of a fleet, and takes part in training; ``fedboard status``: what
it has given so far, and what it has left.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, document
from fedboard.cli.options import DEVICE
from fedboard.cli.text import aligned
from fedboard.client.starting import OF_SERVERS, lives_on, start_quickly
from fedboard.common.errors import InputError


def take_part(config: Path, *, once: bool) -> None:
    """Be the device until Ctrl-C, or for one answer."""
    start_quickly(unused=OF_SERVERS)
    from fedboard.client.participation.config import load_device
    from fedboard.client.participation.opening import open_device

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
        f"{tally.undelivered} replies were not taken by the server; {tally.sent:,} bytes sent, "
        f"{tally.received:,} received"
    )


@command(
    "fedboard client join --invitation ann.invite --out my-device",
    "fedboard client --config my-device/device.toml",
    kind=partial(Commands, invoke_without_command=True),
)
def client(
    config: Path = option(
        "Configuration of this device.", default=Path("device.toml"), envvar="FEDBOARD_DEVICE"
    ),
    once: bool = option("End after one answer."),
) -> None:
    """Take part in training: answer what the server asks, as far as this device's policy allows.

    A device becomes a member of a fleet by `fedboard client join`. It stays until Ctrl-C or SIGTERM and waits for
    a server that is away. Nothing that a server sends is executed; what a server gets is listed by `fedboard
    status`.
    """
    if click.get_current_context().invoked_subcommand is None:
        take_part(config, once=once)


@command(
    "fedboard client join --invitation ann.invite --out my-device --ratings my-ratings.csv --run",
    "fedboard client join https://fleet.example.org:8443 fb1-... --epsilon 3",
    group=client,
)
def join(
    url: str | None = argument(),
    token: str | None = argument(),
    invitation: Path | None = option(
        "File with both, in place of them: words of a command line are seen by other accounts."
    ),
    folder: Path = option(
        "Folder of the device, new or made by `fedboard ratings init`.", "--out", default=Path()
    ),
    epsilon: float | None = option("Your limit over all runs.  [default: what this training asks]"),
    delta: float | None = option("Delta of that limit.  [default: the training's]"),
    ratings: Path | None = option("Your ratings, a CSV file; they stay on this device."),
    run: bool = option("Take part at once, until Ctrl-C."),
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
        from fedboard.cli.device.ratings import take_over

        take_over(ratings, member.device)
    if run:
        take_part(member.device, once=False)
        return
    click.echo("then:")
    if ratings is None:
        click.echo(f"  fedboard ratings import FILE.csv --device {member.device}")
    click.echo(f"  fedboard client --config {member.device}")


@command("fedboard status --device my-device/device.toml")
def status(as_json: bool = JSON, device: Path = DEVICE) -> None:
    """Show what this device gave, what it refused, and its limits; to which runs, at which cost, and why."""
    from fedboard.client.boards.cache import out_of_date
    from fedboard.client.participation.config import load_device
    from fedboard.client.participation.status import status_of

    config = load_device(device)
    found = status_of(config)
    document(found) if as_json else _print(found)
    if (notice := out_of_date(config.board.cache)) is not None:
        click.echo(notice, err=True)


def _print(found: dict[str, Any]) -> None:
    from fedboard.client.participation.status import REASONS
    from fedboard.common.messages.refusals import Refusal

    held, epsilon = f"ratings of {found['users']} users", found["epsilon"]
    if found["ratings"] is not None:
        held = f"{found['ratings']} rating{'' if found['ratings'] == 1 else 's'}"
    click.echo(f"This device holds {held}.")
    click.echo(
        f"Given so far: epsilon {epsilon['spent']:.4g} of {epsilon['limit']:g} at delta {found['delta']:g} "
        f"({found['adjacency']}); {epsilon['left']:.4g} left.\n"
        f"What holds for you is the limit, epsilon {epsilon['limit']:g}, whatever is asked and whenever it stops; "
        "what is given so far says how much of it is used up."
    )
    runs = [
        (
            one["run"],
            ", ".join(map(str, one["rounds"])),
            one["releases"],
            f"{one['scale']:.3g}",
            f"{one['epsilon']:.4g}",
        )
        for one in found["runs"]
    ]
    _table(("run", "rounds", "answers", "part", "epsilon"), runs)
    asked = [
        ("yes" if one["answered"] else "no", one["board"][:16], one["question"]) for one in found["questions"]
    ]
    _table(("answered", "board", "question"), asked)
    refused = [(code, n, REASONS[Refusal(code)]) for code, n in sorted(found["refusals"].items())]
    _table(("refused", "times", "because"), refused)
    _table(("[policy]", ""), [(name, _worded(value)) for name, value in found["limits"].items()])
    boards = [
        (one["version"], one["digest"][:16], f"{one['bytes']:,}", one["noise"], one["catalogue"])
        for one in found["boards"]
    ]
    _table(("version", "board", "bytes", "noise", "catalogue"), boards)
    for one in found["boards"]:
        if one["rounds"] is not None and one["rounds"]["lost"]:
            lost, planned = one["rounds"]["lost"], one["rounds"]["planned"]
            gone = f"{lost} of {planned} rounds were lost by version {one['version']}"
            click.echo(f"\n{gone}: what was given to them is spent, and nothing came of it.")
    if {one["noise"] for one in found["boards"]} & {"simulation", "unstated"}:
        click.echo("\nNOT PRIVATE: boards of seeded or unstated noise are among them.")


def _table(titles: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        click.echo("\n" + aligned(titles, rows))


def _worded(value: object) -> str:
    """A value of a policy, as device.toml would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
