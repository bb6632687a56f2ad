"""``fedboard fleet``: a fleet is made, backed up and restored, and gets what goes beside its server."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.fleet.members import invite, invited, members, remove, status
from fedboard.cli.fleet.server import made_ready
from fedboard.cli.options import CONFIG
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.fleet.settings import FleetSettings

_WEEK_HOURS = 168.0
_LACKS = """\
This quick fleet is run by this machine alone. For more than a trial, elsewhere:
  root holders offline: keys new holder, then keys rotate {keys}/roots; take authority.key and holder.key away
  witnesses of boards:  keys new witness, then witnesses in fleet.toml and in every device.toml
  a roster authority:   keys new roster-authority, then keys sign; for protocols that mask contributions"""

_NEXT = """\
Next:
  fedboard server --config {config}
  fedboard client --config {device}    once it has ratings: fedboard ratings import
  fedboard client join --invitation FILE --ratings FILE.csv --run    on each other device
  fedboard recommend {device}"""


@command("fedboard fleet init films --data-catalogue films.csv --devices 3")
def init(
    folder: Path = argument(default=Path()),
    catalogue: Path = option(
        "Public list of items: columns item and title, or a titles file of MovieLens.",
        "--data-catalogue",
        required=True,
    ),
    devices: int = option("How many take part in a round.", type=click.IntRange(min=1), required=True),
    name: str | None = option("Of the training.  [default: that of FOLDER]"),
    address: str = option("HOST:PORT where devices reach the server.", default="127.0.0.1:8443"),
    epsilon: float = option("Budget of every user.", default=5.0),
) -> None:
    """Make a fleet in FOLDER: keys, fleet.toml with all settings, one ready device, invitations for the others.

    After it come three commands: `server`, `client join` on every device, `recommend`. Nothing that is there is
    overwritten.
    """
    from fedboard.common.algorithms.registry import USUAL
    from fedboard.common.messages.addresses import parse_address
    from fedboard.server.fleet.credentials import make_keys
    from fedboard.server.fleet.kit.kit import filled
    from fedboard.server.fleet.settings import NAME_RULE, is_name, read_settings

    name = folder.resolve().name if name is None else name
    if not is_name(name):
        raise InputError(f"--name must be {NAME_RULE}, got {name!r}")
    host = parse_address(address, name="--address").host
    if not catalogue.is_file():
        raise InputError(f"{catalogue}: no catalogue can be read there")
    config = folder / "fleet.toml"
    if config.exists():
        raise InputError(f"{config}: there is a fleet already; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    make_keys(folder / "keys", name=name, hosts=(host,))
    values = {
        "name": name,
        "algorithm": USUAL,
        "epsilon": f"{epsilon:g}",
        "catalogue": _beside(catalogue, folder),
        "devices": str(devices),
        "quorum": str(devices - devices // 3),
        "address": address,
    }
    config.write_text(filled("fleet.toml", values), encoding="utf-8")
    try:
        settings = read_settings(config)
        click.echo(f"{config}: {made_ready(settings)}")
    except BaseException:
        config.unlink()  # so that it can be tried again
        shutil.rmtree(folder / "keys")
        shutil.rmtree(folder / "state", ignore_errors=True)
        raise
    device, invitations = _invite_all(settings, folder)
    lines = [f"{device}: a device that is a member; it has no ratings yet"]
    if invitations:
        lines.append(f"{', '.join(map(str, invitations))}: for the others, once each, within a week")
    lines.append(_LACKS.format(keys=settings.keys.relative_to(folder.absolute())))
    click.echo("\n".join([*lines, _NEXT.format(config=config, device=device)]))


def _beside(catalogue: Path, folder: Path) -> str:
    """The catalogue, from the fleet's folder: where it lies in there, else a copy."""
    place, home = catalogue.resolve(), folder.resolve()
    if not place.is_relative_to(home):
        target = home / f"catalogue{catalogue.suffix}"
        if target.exists() and target.read_bytes() != place.read_bytes():
            raise InputError(f"{target}: another catalogue is there already; move it away")
        shutil.copyfile(place, target)
        place = target
    return place.relative_to(home).as_posix()


def _invite_all(settings: "FleetSettings", folder: Path) -> tuple[Path, list[Path]]:
    """The first device joins here, as the server admits it; the others get the files of their invitations."""
    from fedboard.client.participation.joining import become_member
    from fedboard.common.messages.enrolment import Introduction
    from fedboard.server.fleet.credentials import introduction_of
    from fedboard.server.fleet.enrolment import Enrolment
    from fedboard.server.fleet.register import Register
    from fedboard.server.fleet.state_folder import StateFolder

    content, place = introduction_of(settings), StateFolder.of(settings).members
    files = [folder / f"device-{number}.invitation" for number in range(2, settings.rounds.devices + 1)]
    with Register(place) as register:
        first, *_ = [
            invited(
                settings, register, content, name=f"device-{number}", users=1, hours=_WEEK_HOURS, out=out
            )[0]
            for number, out in enumerate((None, *files), start=1)
        ]
        enrolment = Enrolment(introduction=content, register=place, capacity=settings.capacity)
        opened = Introduction.open(content, digest=first.introduction)
        joined = become_member(
            first,
            opened,
            folder / "device",
            ask=lambda request: enrolment.admit(request.SerializeToString()),
            epsilon=opened.epsilon,
        )
    return joined.device, files


@command("fedboard fleet backup --to /var/backups/fedboard")
def backup(
    config: Path = CONFIG, place: Path = option("A folder, or a new file .fedboard.", "--to", required=True)
) -> None:
    """Back up a server: settings, keys, register, boards, and the ledger that paid for them. It may run meanwhile.

    The file is for its owner alone to read: it holds the server's keys. Keep it on another machine, and make one
    after every round: what is released after a backup is not in it, and then the training cannot go on from it.
    """
    from fedboard.server.fleet.backup import back_up
    from fedboard.server.fleet.settings import read_settings

    written, contents = back_up(read_settings(config), config, place)
    board = "no board yet" if contents.board < 0 else f"boards up to {contents.board}"
    click.echo(f"{written}: {board}")
    for path in contents.outside:
        click.echo(f"not in it, since it is elsewhere than {config.name}: {path}")


@command("fedboard fleet restore films.fedboard --to new --newest-board mirror")
def restore(
    file: Path,
    folder: Path = option("A new folder, for settings, keys and state.", "--to", required=True),
    newest: Path | None = option(
        "The newest board that anybody has: a file, a mirror's folder, a reader's boards.", "--newest-board"
    ),
    stopped: bool = option("The server was stopped before the backup, and has not run since."),
    closed: bool = option("Nobody can show that: publish the boards, train no more."),
) -> None:
    """Write a fleet from the backup in FILE into a new folder, so that its server can be started there.

    A backup is older than what was lost. What the server has released since is in no ledger that is left, so you
    have to show that there is nothing: by the newest board that anybody has, which must be the backup's. The round
    that may have been under way is then booked as lost. Where later boards were published, the training is over.
    """
    from fedboard.server.fleet.backup import restore as restored

    found = restored(file, folder, newest=newest, stopped=stopped, closed=closed)
    made = f"{datetime.fromtimestamp(found.contents.made, UTC):%Y-%m-%d %H:%M} UTC"
    click.echo(f"{found.config}: restored as of {made}, board {found.contents.board}")
    if found.lost_round is not None:
        click.echo(f"round {found.lost_round} is booked as lost: it may have been under way")
    if closed:
        click.echo("the training is closed: its boards are published, and nothing more is released")
    if found.witnessed and not stopped:
        click.echo(
            "witnesses refuse what does not continue the last manifest that they have cosigned: if more was signed "
            "since, put the newest copy of the mirror in the place of state/mirror before you start the server; "
            "where it has a later board, the training is over, and only --closed serves it"
        )
    if found.withdrawn:
        click.echo(f"{found.withdrawn} open invitations are void; make new ones")
    click.echo(
        "members are those of that moment: remove again whom you removed since (fedboard fleet members)"
    )
    for path in found.contents.outside:
        click.echo(f"was not in the backup: {path}")


@command("fedboard fleet kit --to deployment --user fedboard")
def kit(
    config: Path = CONFIG,
    folder: Path = option("Folder to write to.", "--to", required=True),
    user: str | None = option("Account that runs the unit.  [default: yours]"),
) -> None:
    """Write what goes beside a server: a systemd unit, compose.yaml, a firewall's limit, alerts, a dashboard.

    Each begins with what it is for and is yours to change: none that is there is written over. The unit gets no
    rights beyond the account's, sees nothing of other processes and homes, and writes to the state folder alone.
    """
    from fedboard.server.fleet.kit.kit import server_kit, write_kit
    from fedboard.server.fleet.settings import read_settings

    texts = server_kit(read_settings(config), config, user=user)
    for path in write_kit(texts, folder):
        click.echo(f"{path}")
    unit = next(iter(texts))
    click.echo(
        f"then: sudo cp {folder / unit} /etc/systemd/system/ && sudo systemctl daemon-reload && "
        f"sudo systemctl enable --now {unit}"
    )


@click.group(cls=Commands)
def fleet() -> None:
    """Make a fleet and operate it: invite devices, remove them, see how it stands.

    These commands work on the files of the server's state folder, whether the server runs or not; a running one
    takes every change over at once.
    """


for _command in (init, status, invite, members, remove, backup, restore, kit):
    fleet.add_command(_command)
