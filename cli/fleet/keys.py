"""``fedboard keys``: keys of those who are not the operator's machine, and what becomes of keys later."""

from collections.abc import Callable
from pathlib import Path

import click

from fedboard.cli.fleet.live_keys import renew, show
from fedboard.cli.fleet.root_keys import rotate, sign_root
from fedboard.cli.signing_options import KEYS_FOLDER
from fedboard.cli.style.groups import Commands
from fedboard.common.errors import InputError

_PATH = click.Path(path_type=Path)
_KINDS = ("holder", "witness", "identity", "roster-authority", "boards", "questions", "authority")


@click.group(cls=Commands)
def keys() -> None:
    """Make keys, replace them, sign for others, and see what expires.

    `fedboard fleet init` makes all that the machine of a fleet's operator needs. Private keys are readable by their
    owner only, and none is overwritten.
    """


@keys.command(
    epilog="""\b
Examples:
  fedboard keys new holder --name alice      who signs the root, offline
  fedboard keys new witness                  who cosigns boards, elsewhere
  fedboard keys new boards --name boards-2   a further or the next signing key
"""
)
@click.argument("kind", type=click.Choice(_KINDS))
@KEYS_FOLDER
@click.option("--name", help="Name of the files, or of the fleet for an authority.  [default: KIND]")
def new(kind: str, folder: Path, name: str | None) -> None:
    """Make the key pair of a KIND of party, where that party is: NAME.key stays there, NAME.pub is for others.

    A holder signs roots, a witness cosigns boards, a roster authority signs lists of devices; identity is a
    device's. Boards and questions are signed by the server, whose certificate the authority signs.
    """
    from fedboard.server.fleet.plan.settings import NAME_RULE, is_name

    name = kind if name is None else name
    if not is_name(name):
        raise InputError(f"--name must be {NAME_RULE}, got {name!r}; files elsewhere: --out FOLDER")
    _MAKERS.get(kind, _pair)(kind, folder, name)


def _pair(kind: str, folder: Path, name: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from fedboard.common.keys.ed25519_keys import write_pair

    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    write_pair(key, private=private, public=public)
    digits = key.public_key().public_bytes_raw().hex()
    click.echo(f"{private}: {_STAYS[kind]}")
    click.echo(f"{public}: {_GOES[kind].format(digits)}")


_STAYS = {
    "holder": "keep it offline",
    "witness": "for fedboard witness --key; it stays here",
    "identity": "for [server] in device.toml; it stays on this device",
    "roster-authority": "keep it off the server; it signs lists with: fedboard keys sign",
    "boards": "for the server's keys folder, where boards-*.key sign beside boards.key",
    "questions": "for the server's keys folder, as questions.key",
}
_GOES = {
    "holder": "for fedboard keys rotate --holder",
    "witness": "for witnesses of fleet.toml, and of every device.toml: {}",
    "identity": "for whoever keeps the list of devices, fedboard keys sign",
    "roster-authority": 'vouched_by = "{}", for [policy] of every device.toml and [protocol] settings',
    "boards": "for fedboard keys rotate --board-key",
    "questions": "for fedboard keys rotate --question-key",
}


def _authority(kind: str, folder: Path, name: str) -> None:
    from fedboard.server.tls import make_authority

    certificate, key = folder / "authority.pem", folder / "authority.key"
    make_authority(certificate, key, name=name)
    click.echo(f"{certificate}: for the server's keys folder, from where every device gets it")
    click.echo(f"{key}: keep it off the server; it signs the server's certificate with: fedboard keys renew")


_MAKERS: dict[str, Callable[[str, Path, str], None]] = {"authority": _authority}


@keys.command(
    epilog="""\b
Examples:
  fedboard keys sign roots/2.root.json --key alice.key
  fedboard keys sign keys/roster.json phones/*.pub --fleet films --key roster-authority.key
"""
)
@click.argument("path", metavar="FILE", type=_PATH)
@click.argument("devices", metavar="[DEVICE]...", nargs=-1, type=_PATH)
@click.option("--key", "signers", type=_PATH, multiple=True, required=True, help="Private key to sign with.")
@click.option("--fleet", help="Of a list: name of the fleet whose devices these are.")
@click.option(
    "--days",
    type=click.FloatRange(0, 3650, min_open=True),
    default=90.0,
    show_default=True,
    help="Of a list: until it is over.",
)
def sign(
    path: Path, devices: tuple[Path, ...], signers: tuple[Path, ...], fleet: str | None, days: float
) -> None:
    """Sign a root as one of its holders, or a list of devices as their authority.

    FILE is N.root.json, with the roots before it beside it, so that you see what changes; or the list, of all
    DEVICEs (their identity.pub): one that is left out takes part no more. Read what is printed before you send the
    file on: it is what you have signed.
    """
    if path.name.endswith(".root.json"):
        if devices or fleet:
            raise InputError(f"{path} is a root, which names no devices: leave DEVICE and --fleet out")
        sign_root(path, signers)
    else:
        if not devices or not fleet or len(signers) != 1:
            raise InputError(
                f"{path}: a list of devices takes DEVICE..., --fleet and one --key; a root is a file N.root.json"
            )
        _sign_list(path, devices, signers[0], fleet=fleet, days=days)


def _sign_list(path: Path, devices: tuple[Path, ...], signer: Path, *, fleet: str, days: float) -> None:
    from fedboard.common.files import write_atomically
    from fedboard.common.keys.roster import Roster, RosterAuthority, public_key

    signing = RosterAuthority.load(signer)
    number = Roster.load(path, authority=signing.public).number + 1 if path.exists() else 1
    listed = [public_key(device) for device in devices]
    signed = signing.sign(listed, fleet=fleet, number=number, seconds=days * 86_400)
    write_atomically(path, signed.content)
    click.echo(f"{path}: list {number} of {fleet}, {len(listed)} devices, for {days:g} days")
    click.echo(f'vouched_by = "{signing.public.hex()}"')


for _command in (rotate, renew, show):
    keys.add_command(_command)
