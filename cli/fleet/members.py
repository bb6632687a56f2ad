"""``fedboard fleet status``, ``invite``, ``members`` and ``remove``."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.declaring import command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.fleet.server import stays, told_to_stop
from fedboard.cli.options import CONFIG, PEOPLE
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.messages.enrolment import Invitation
    from fedboard.server.fleet.register import Register
    from fedboard.server.fleet.settings import FleetSettings

_MOST_HOURS = 8760.0


@command("fedboard fleet invite ann --out ann.invite")
def invite(
    name: str,
    config: Path = CONFIG,
    users: int = option("How many users it may host.", type=PEOPLE, default=1),
    hours: float = option(
        "How long it may be used.", type=click.FloatRange(0, _MOST_HOURS, min_open=True), default=24.0
    ),
    out: Path | None = option("Write it to a new file, for its owner alone to read."),
    as_json: bool = JSON,
) -> None:
    """Make an invitation for the device NAME, which joins with it, once.

    Give the line to the device's owner, over a way that others do not read: whoever has the token joins in the
    device's place, once. The server keeps a digest of it. It names the server's keys of this moment, so an
    invitation ends when one of them is changed.
    """
    from fedboard.server.fleet.credentials import introduction_of, require_credentials
    from fedboard.server.fleet.settings import NAME_RULE, is_name

    settings, register = _opened(config)
    with register:
        room = settings.capacity
        if not is_name(name):
            raise InputError(f"NAME must be {NAME_RULE}, got {name!r}")
        if users > room.each:
            raise InputError(
                f"--users must be at most {room.each}, got {users}: {config} foresees {room.users} people behind "
                f"{room.devices} devices; raise members.users"
            )
        require_credentials(settings)
        invitation, ends = invited(
            settings, register, introduction_of(settings), name=name, users=users, hours=hours, out=out
        )
    until = _day(ends)
    shown = {"file": str(out)} if out is not None else {"url": invitation.url, "token": invitation.token}
    joining = f"fedboard client join {invitation.url} {invitation.token}"
    text = f"for {name}, once, until {until}; on the device:\n{joining}"
    if out is not None:
        text = f"{out}: for {name}, once, until {until}; there: fedboard client join --invitation {out.name}"
    answer({"name": name, "users": users, "expires": ends, **shown}, text, as_json=as_json)


def invited(
    settings: "FleetSettings",
    register: "Register",
    introduction: bytes,
    *,
    name: str,
    users: int,
    hours: float,
    out: Path | None,
) -> "tuple[Invitation, float]":
    """Open an invitation; its file is there before it counts, and goes where it does not.

    Returns:
        The invitation, and when it ends.

    Raises:
        InputError: the file is there, or the name is taken.
    """
    from fedboard.common.boards.ed25519_keys import write_new
    from fedboard.common.messages.enrolment import Invitation, digest_of_introduction, fresh_secret

    invitation = Invitation(
        address=settings.network.reached,
        introduction=digest_of_introduction(introduction),
        secret=fresh_secret(),
    )
    if out is not None:
        write_new(secret={out: invitation.text.encode()})
    try:
        return invitation, register.invite(
            invitation.secret, name=name, max_users=users, seconds=hours * 3600
        )
    except BaseException:
        if out is not None:
            out.unlink()
        raise


@command("fedboard fleet members --json")
def members(
    config: Path = CONFIG,
    identities: Path | None = option(
        "Write the identity keys of those who joined to this folder, for `fedboard keys sign`."
    ),
    as_json: bool = JSON,
) -> None:
    """List the devices of the fleet, those that were removed, and the invitations that are open."""
    from fedboard.common.boards.ed25519_keys import public_pem
    from fedboard.common.files import write_atomically

    with _opened(config)[1] as register:
        listed, waiting, again = register.members(), register.invitations(), register.presented_again()
    if identities is not None:
        identities.mkdir(parents=True, exist_ok=True)
        for one in listed:
            if one.admitted and one.identity:
                write_atomically(identities / f"{one.name}.pub", public_pem(bytes.fromhex(one.identity)))
    shown = [
        {
            "name": one.name,
            "users": one.max_users,
            "admitted": one.admitted,
            "joined": one.joined,
            "removed": one.removed,
            "identity": one.identity,
        }
        for one in listed
    ]
    open_ = [{"name": one.name, "users": one.max_users, "expires": one.expires} for one in waiting]
    rows = [
        (
            one.name,
            one.max_users,
            "joined" if one.removed is None else f"removed {_day(one.removed)}",
            _day(one.joined),
        )
        for one in listed
    ]
    rows += [(one.name, one.max_users, f"invited until {_day(one.expires)}", "") for one in waiting]
    lines = [aligned(("device", "users", "state", "since"), rows) if rows else "no devices yet"]
    lines += [
        f"the invitation of {name} was presented again, by another key: somebody else has seen it; remove {name} "
        "if it is not the device that you meant"
        for name in again
    ]
    record = {"members": shown, "invitations": open_, "presented_again": again}
    answer(record, "\n".join(lines), as_json=as_json)


@command("fedboard fleet remove ann")
def remove(name: str, config: Path = CONFIG) -> None:
    """Shut the device NAME out for good, at once, or withdraw its invitation.

    Its next request is refused, and an answer that has come and is not yet in a sum is refused.
    What is in a sum stays there: sums cannot be taken apart, and the device has booked it. Its key never comes
    back; its owner's record of what it gave stays theirs.
    """
    with _opened(config)[1] as register:
        what = register.remove(name)
    click.echo(f"{name} is removed" if what == "device" else f"the invitation of {name} is withdrawn")


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def _opened(config: Path) -> "tuple[FleetSettings, Register]":
    """Settings and register of a fleet that was prepared.

    Raises:
        InputError: it was not.
    """
    from fedboard.server.fleet.register import Register
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.state_folder import StateFolder

    settings = read_settings(config)
    place = StateFolder.of(settings).members
    if not place.exists():
        raise InputError(
            f"{settings.state}: no fleet was prepared there yet; do it with: fedboard server --check"
        )
    return settings, Register(place)


_WATCH_SECONDS = 2.0
_IN_PLACE = "\x1b[H\x1b[J"
"""To the first line of the terminal, and nothing below it."""


@command("fedboard fleet status --watch")
def status(
    config: Path = CONFIG,
    watch: bool = option("Show it in place, anew every 2 seconds, until Ctrl-C."),
    as_json: bool = JSON,
) -> None:
    """Say how a fleet stands: devices, answers of this round, budget, lost rounds, what expires, the disk.

    It reads the files of the state folder and the keys, whether the server runs or not. It is for the operator: how
    many devices are there depends on people in ways that no budget covers.
    """
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.status import status_of
    from fedboard.server.operating.run_files import require_few_lost

    if watch and as_json:
        raise InputError("--watch is for people: leave it out, or --json")
    settings = read_settings(config)
    told = told_to_stop() if watch else None
    while True:
        found = status_of(settings)
        looks = [f"LOOK: {problem}" for problem in found.problems()]
        text = "\n".join([aligned((found.name, ""), found.rows()), *looks])
        answer(found.to_dict(), f"{_IN_PLACE if watch else ''}{text}", as_json=as_json)
        if told is None or not stays(told, _WATCH_SECONDS):
            break
    require_few_lost(found.fares, most_lost=settings.rounds.most_lost)
