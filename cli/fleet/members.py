"""``fedboard fleet invite``, ``members`` and ``remove``."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.counts import PEOPLE
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.wire.enrolment import Invitation
    from fedboard.server.fleet.members.register import Register
    from fedboard.server.fleet.plan.settings import FleetSettings

CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("fleet.toml"),
    envvar="FEDBOARD_FLEET",
    show_default=True,
    help="Configuration of the fleet.",
)
_MOST_HOURS = 8760.0


@click.command(epilog="Example: fedboard fleet invite ann --out ann.invite")
@click.argument("name")
@CONFIG
@click.option("--users", type=PEOPLE, default=1, show_default=True, help="How many users it may host.")
@click.option(
    "--hours",
    type=click.FloatRange(0, _MOST_HOURS, min_open=True),
    default=24.0,
    show_default=True,
    help="How long it may be used.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write it to a new file, for its owner alone to read."
)
@JSON
def invite(name: str, config: Path, users: int, hours: float, out: Path | None, as_json: bool) -> None:
    """Make an invitation for the device NAME, which joins with it, once.

    Give the line to the device's owner, over a way that others do not read: whoever has the token joins in the
    device's place, once. The server keeps a digest of it. It names the server's keys of this moment, so an
    invitation ends when one of them is changed.
    """
    from fedboard.server.fleet.plan.introducing import introduction_of, require_named
    from fedboard.server.fleet.plan.settings import NAME_RULE, is_name, read_settings

    settings = read_settings(config)
    if not is_name(name):
        raise InputError(f"NAME must be {NAME_RULE}, got {name!r}")
    if users > settings.users_each:
        raise InputError(
            f"--users must be at most {settings.users_each}, got {users}: {config} foresees {settings.most_users} "
            f"people behind {settings.most_devices} devices; raise members.users"
        )
    require_named(settings)
    with _register(settings) as register:
        invitation, ends = invited(
            settings, register, introduction_of(settings), name=name, users=users, hours=hours, out=out
        )
    until = f"{datetime.fromtimestamp(ends):%Y-%m-%d %H:%M}"
    if as_json:
        shown = {"file": str(out)} if out is not None else {"url": invitation.url, "token": invitation.token}
        document({"name": name, "users": users, "expires": ends, **shown})
    elif out is not None:
        click.echo(
            f"{out}: for {name}, once, until {until}; there: fedboard client join --invitation {out.name}"
        )
    else:
        click.echo(f"for {name}, once, until {until}; on the device:")
        click.echo(f"fedboard client join {invitation.url} {invitation.token}")


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
    from fedboard.common.wire.enrolment import Invitation, digest_of_introduction, fresh_secret

    invitation = Invitation(
        address=settings.network.reached,
        introduction=digest_of_introduction(introduction),
        secret=fresh_secret(),
    )
    if out is not None:
        _write(out, invitation.text)
    try:
        return invitation, register.invite(
            invitation.secret, name=name, max_users=users, seconds=hours * 3600
        )
    except BaseException:
        if out is not None:
            out.unlink()
        raise


@click.command(epilog="Example: fedboard fleet members --json")
@CONFIG
@click.option(
    "--identities",
    type=click.Path(path_type=Path),
    help="Write the identity keys of those who joined to this folder, for `fedboard keys sign`.",
)
@JSON
def members(config: Path, identities: Path | None, as_json: bool) -> None:
    """List the devices of the fleet, those that were removed, and the invitations that are open."""
    from fedboard.server.fleet.plan.settings import read_settings

    with _register(read_settings(config)) as register:
        listed, waiting = register.members(), register.invitations()
        again = register.presented_again()
    if identities is not None:
        _write_identities(
            {one.name: one.identity for one in listed if one.admitted and one.identity}, identities
        )
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
    if as_json:
        document({"members": shown, "invitations": open_, "presented_again": again})
        return
    rows = [
        (str(one["name"]), str(one["users"]), _how(one), _day(float(one["joined"] or 0))) for one in shown
    ]
    rows += [(one.name, str(one.max_users), f"invited until {_day(one.expires)}", "") for one in waiting]
    click.echo(aligned(("device", "users", "state", "since"), rows, right=(1,)) if rows else "no devices yet")
    for name in again:
        click.echo(
            f"the invitation of {name} was presented again, by another key: somebody else has seen "
            f"it; remove {name} "
            "if it is not the device that you meant"
        )


@click.command(epilog="Example: fedboard fleet remove ann")
@click.argument("name")
@CONFIG
def remove(name: str, config: Path) -> None:
    """Shut the device NAME out for good, at once, or withdraw its invitation.

    The door lets its next request through no more, and an answer that has come and is not yet in a sum is refused.
    What is in a sum stays there: sums cannot be taken apart, and the device has booked it. Its key never comes
    back; its owner's record of what it gave stays hers.
    """
    from fedboard.server.fleet.plan.settings import read_settings

    with _register(read_settings(config)) as register:
        what = register.remove(name)
    click.echo(f"{name} is removed" if what == "device" else f"the invitation of {name} is withdrawn")


def _write_identities(keys: dict[str, str], folder: Path) -> None:
    from fedboard.common.files import write_atomically
    from fedboard.common.keys.ed25519_keys import public_pem

    folder.mkdir(parents=True, exist_ok=True)
    for name, key in keys.items():
        write_atomically(folder / f"{name}.pub", public_pem(bytes.fromhex(key)))


def _how(one: dict[str, Any]) -> str:
    return "joined" if one["removed"] is None else f"removed {_day(one['removed'])}"


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def _register(settings: "FleetSettings") -> "Register":
    """Of a fleet that was prepared.

    Raises:
        InputError: it was not.
    """
    from fedboard.server.fleet.members.register import Register
    from fedboard.server.fleet.plan.state_folder import StateFolder

    place = StateFolder.of(settings).members
    if not place.exists():
        raise InputError(
            f"{settings.state}: no fleet was prepared there yet; do it with: fedboard server --check"
        )
    return Register(place)


def _write(path: Path, text: str) -> None:
    from fedboard.common.keys.ed25519_keys import write_new

    write_new(secret={path: text.encode()})
