"""``fedboard fleet init``: keys, settings, invitations and one ready device, so that a server can be started."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.fleet.members import invited
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.wire.devices_pb2 import JoinReply, JoinRequest
    from fedboard.server.fleet.plan.settings import FleetSettings

_WEEK_HOURS = 168.0
_SETTINGS = """\
# All settings of this fleet; those that are commented out stand at their defaults. Paths are relative to this file.
name = "{name}"
# state = "state"                # ledger, boards, members: all that must survive
# keys = "keys"                  # keys and certificates, by fixed names

[task]
# algorithm = "{algorithm}"      # fedboard simulate tries them
# feedback = "explicit"          # or "implicit": presence alone
rating_range = [1.0, 5.0]
# settings = {{}}                  # over the algorithm's tuned defaults
# shares = {{}}                    # of the budget, for each release

[privacy]
epsilon = {epsilon:g}                    # for every user, over the whole training; left out: queries alone
# delta = 1e-5                   # well below one over the number of users
# adjacency = "add-remove"       # or "replace"
# seed = 0                       # trials only: noise that can be repeated, and protects nobody

[catalogue]
file = "{catalogue}"
# features = "features.csv"      # public features of the items
# statement = "the items of the catalogue"  # what the certificate says of the data

[rounds]
devices = {devices}                      # a round begins when as many are there
# quorum = {quorum}                     # and needs as many answers
# deadline_seconds = 600.0       # how long it waits for them, at least
# most_lost = 0.2                # a training that lost more of its rounds ends with exit code 6

[protocol]
# name = "trusted"               # or another of `fedboard protocols list`: whom must devices trust?
# settings = {{}}
# helper = "helper.example.org:8450"  # two-server's second server

[network]
address = "{address}"      # HOST:PORT that devices use
# listen = "0.0.0.0:8443"        # HOST:PORT of this machine
# ops = "127.0.0.1:8444"         # metrics, health and the live report, for the operator

[members]
# most = {devices}                       # devices at a time, each with an invitation
# users = {devices}                      # people behind all of them; more than `most` where some are gateways

# [boards]
# witnesses = []                 # public keys of those who cosign boards
# cosignatures = 2               # of how many of them a board needs

# [queries]                      # private queries beside the training
# epsilon = 6.0                  # of the training and all queries together
"""
_LACKS = """\
This quick fleet is run by this machine alone. For more than a trial, elsewhere:
  root holders offline: keys new holder, then keys rotate {keys}/roots; take authority.key and holder.key away
  witnesses of boards:  keys new witness, then witnesses in fleet.toml and in every device.toml
  a roster authority:   keys new roster-authority, then keys sign; for protocols that mask contributions"""


@click.command(epilog="Example: fedboard fleet init films --data-catalogue films.csv --devices 3")
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option(
    "--data-catalogue",
    "catalogue",
    type=click.Path(path_type=Path),
    required=True,
    help="Public list of items: columns item and title, or a titles file of MovieLens.",
)
@click.option("--devices", type=click.IntRange(min=1), required=True, help="How many take part in a round.")
@click.option("--name", help="Of the training.  [default: that of FOLDER]")
@click.option(
    "--address", default="127.0.0.1:8443", show_default=True, help="HOST:PORT where devices reach the server."
)
@click.option("--epsilon", type=float, default=5.0, show_default=True, help="Budget of every user.")
def init(folder: Path, catalogue: Path, devices: int, name: str | None, address: str, epsilon: float) -> None:
    """Make a fleet in FOLDER: keys, fleet.toml with all settings, one ready device, invitations for the others.

    After it come three commands: `server`, `client join` on every device, `recommend`. Nothing that is there is
    overwritten.
    """
    from fedboard.common.wire.addresses import parse_address
    from fedboard.server.fleet.plan.making import make_keys
    from fedboard.server.fleet.plan.settings import NAME_RULE, is_name, read_settings

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
    text = _text(
        name=name, catalogue=_beside(catalogue, folder), devices=devices, address=address, epsilon=epsilon
    )
    config.write_text(text, encoding="utf-8")
    try:
        settings = read_settings(config)
        click.echo(f"{config}: {_prepared(settings)}")
    except BaseException:
        config.unlink()  # so that it can be tried again
        shutil.rmtree(folder / "keys")
        shutil.rmtree(folder / "state", ignore_errors=True)
        raise
    device, invitations = _invite_all(settings, folder)
    click.echo(f"{device}: a device that is a member; it has no ratings yet")
    if invitations:
        click.echo(f"{', '.join(map(str, invitations))}: for the others, once each, within a week")
    click.echo(_LACKS.format(keys=settings.keys.relative_to(folder.absolute())))
    click.echo("Next:")
    click.echo(f"  fedboard server --config {config}")
    click.echo(f"  fedboard client --config {device}    once it has ratings: fedboard ratings import")
    click.echo("  fedboard client join --invitation FILE --ratings FILE.csv --run    on each other device")
    click.echo(f"  fedboard recommend {device}")


def _text(*, name: str, catalogue: str, devices: int, address: str, epsilon: float) -> str:
    from fedboard.common.tasks.registry import USUAL

    return _SETTINGS.format(
        name=name,
        algorithm=USUAL,
        epsilon=epsilon,
        catalogue=catalogue,
        devices=devices,
        quorum=devices - devices // 3,
        address=address,
    )


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


def _prepared(settings: "FleetSettings") -> str:
    """Board 0 and the register are made; what the fleet promises, in a sentence."""
    from fedboard.server.fleet.plan.credentials import require_credentials
    from fedboard.server.fleet.plan.introducing import require_named
    from fedboard.server.fleet.plan.preparing import prepare

    require_credentials(settings)
    require_named(settings)
    board, promise = prepare(settings), settings.promise
    return (
        f"{settings.name}, {board.task} over {board.catalogue.n_items} items, epsilon {promise.epsilon:g} at "
        f"delta {promise.delta:g} for every user, {settings.rounds.devices} devices a round"
    )


def _invite_all(settings: "FleetSettings", folder: Path) -> tuple[Path, list[Path]]:
    """The first device joins here; the others get the files of their invitations."""
    from fedboard.client.node.joining import become_member
    from fedboard.common.wire.enrolment import Introduction
    from fedboard.server.fleet.members.register import Register
    from fedboard.server.fleet.plan.introducing import introduction_of
    from fedboard.server.fleet.plan.state_folder import StateFolder

    content, files = introduction_of(settings), list[Path]()
    place = StateFolder.of(settings).members
    with Register(place) as register:
        for number in range(1, settings.rounds.devices + 1):
            out = None if number == 1 else folder / f"device-{number}.invitation"
            invitation, _ = invited(
                settings, register, content, name=f"device-{number}", users=1, hours=_WEEK_HOURS, out=out
            )
            if out is None:
                opened = Introduction.open(content, digest=invitation.introduction)
                first = become_member(
                    invitation,
                    opened,
                    folder / "device",
                    ask=lambda request: _admitted(request, settings, content),
                    epsilon=opened.epsilon,
                )
            else:
                files.append(out)
    return first.device, files


def _admitted(request: "JoinRequest", settings: "FleetSettings", introduction: bytes) -> "JoinReply":
    """As the server admits it."""
    from fedboard.server.fleet.devices.enrolment import Enrolment
    from fedboard.server.fleet.members.records import Capacity
    from fedboard.server.fleet.members.register import Register
    from fedboard.server.fleet.plan.state_folder import StateFolder

    capacity = Capacity(devices=settings.most_devices, users=settings.most_users)
    place = StateFolder.of(settings).members
    enrolment = Enrolment(introduction=introduction, open_register=lambda: Register(place), capacity=capacity)
    return enrolment.admit(request.SerializeToString())
