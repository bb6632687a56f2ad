"""``fedboard keys identity``, ``roster-authority`` and ``roster``: who is a real device, and who says so."""

from pathlib import Path

import click

from fedboard.cli.signing_options import KEYS_FOLDER


@click.command(epilog="Example: fedboard keys identity --out ~/fedboard")
@KEYS_FOLDER
def identity(folder: Path) -> None:
    """Make this device's identity: identity.key stays on it, identity.pub goes to who keeps the list of devices.

    By it other devices know that they share masks with a real device, and not with one of the server's making.
    """
    from fedboard.common.keys.roster import IdentityKey

    private, public = IdentityKey().write(folder)
    click.echo(f"{private}: for [server] in device.toml; {public}: for fedboard keys roster")


@click.command(name="roster-authority", epilog="Example: fedboard keys roster-authority --out authority")
@KEYS_FOLDER
def roster_authority(folder: Path) -> None:
    """Make the key pair that vouches for devices: roster-authority.key signs lists of them.

    Keep it off the server, with somebody whom the people with devices trust to list real devices only: whoever has
    it decides who is real.
    """
    from fedboard.common.keys.roster import RosterAuthority

    authority = RosterAuthority()
    private, _ = authority.write(folder)
    click.echo(f"{private}: keep it off the server; it signs lists with: fedboard keys roster")
    click.echo(
        f'vouched_by = "{authority.public.hex()}"  # for every device\'s [policy] and the [protocol] settings'
    )


@click.command(epilog="Example: fedboard keys roster --fleet films phones/*/identity.pub --list roster")
@click.argument("devices", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--fleet", required=True, help="Name of the fleet whose devices these are.")
@click.option(
    "--authority",
    type=click.Path(path_type=Path),
    default=Path("keys/roster-authority.key"),
    show_default=True,
    help="Private key that signs.",
)
@click.option(
    "--list",
    "path",
    type=click.Path(path_type=Path),
    default=Path("roster"),
    show_default=True,
    help="The list; one that is there is replaced by the next number.",
)
@click.option(
    "--days",
    type=click.FloatRange(0, 3650, min_open=True),
    default=90.0,
    show_default=True,
    help="Until it is over.",
)
def roster(devices: tuple[Path, ...], fleet: str, authority: Path, path: Path, days: float) -> None:
    """Sign the list of DEVICES (their identity.pub files), for protocol.roster in fleet.toml.

    The list names all devices of the fleet: one that is left out takes part no more.
    """
    from fedboard.common.files import write_atomically
    from fedboard.common.keys.roster import Roster, RosterAuthority, public_key

    signing = RosterAuthority.load(authority)
    number = Roster.load(path, authority=signing.public).number + 1 if path.exists() else 1
    keys = [public_key(device) for device in devices]
    signed = signing.sign(keys, fleet=fleet, number=number, seconds=days * 86_400)
    write_atomically(path, signed.content)
    click.echo(f"{path}: list {number} of {fleet}, {len(keys)} devices, for {days:g} days")
    click.echo(f'vouched_by = "{signing.public.hex()}"')
