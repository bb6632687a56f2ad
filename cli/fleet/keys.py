"""``fedboard keys``: the keys and certificates of a fleet. None is ever overwritten."""

from pathlib import Path

import click

from fedboard.cli.fleet import roster_keys
from fedboard.cli.fleet.live_keys import renew, show
from fedboard.cli.fleet.root_keys import holder, root, rotate, sign
from fedboard.cli.fleet.witness import witness_key
from fedboard.cli.signing_options import KEYS_FOLDER
from fedboard.cli.style.groups import Commands


@click.group(cls=Commands)
def keys() -> None:
    """Make keys and certificates, replace them, and see what expires.

    Private ones are readable by their owner only, and none is overwritten.
    """


for _command in (holder, root, rotate, sign, renew, show):
    keys.add_command(_command)


@keys.command(epilog="Example: fedboard keys authority --name films")
@KEYS_FOLDER
@click.option("--name", default="fedboard", show_default=True, help="Name of the fleet.")
def authority(folder: Path, name: str) -> None:
    """Make the fleet's own authority: authority.pem, which every device gets, and authority.key.

    authority.key signs the server's certificate and is needed for nothing else: keep it off the server.
    """
    from fedboard.server.tls import make_authority

    make_authority(folder / "authority.pem", folder / "authority.key", name=name)
    click.echo(
        f"{folder / 'authority.pem'}: give it to every device; keep {folder / 'authority.key'} offline"
    )


@keys.command(epilog="Example: fedboard keys server --name fleet.example.org")
@KEYS_FOLDER
@click.option(
    "--name",
    "names",
    multiple=True,
    help="Host name or address that devices use; give it as often as there are. 127.0.0.1 is always added.",
)
def server(folder: Path, names: tuple[str, ...]) -> None:
    """Make the server's certificate, signed by the authority in the same folder: server.pem and server.key."""
    from fedboard.server.tls import make_server_certificate

    make_server_certificate(
        folder / "server.pem",
        folder / "server.key",
        authority=folder / "authority.pem",
        authority_key=folder / "authority.key",
        names=names,
    )
    click.echo(f"{folder / 'server.pem'} and {folder / 'server.key'}: for [network] in fleet.toml")


@keys.command(epilog="Example: fedboard keys node phone-1")
@click.argument("name")
@KEYS_FOLDER
def node(name: str, folder: Path) -> None:
    """Make the key pair of the device NAME, on that device: NAME.key stays there, NAME.pub goes to the server."""
    from fedboard.common.errors import InputError
    from fedboard.common.keys.node_keys import make_node_key
    from fedboard.server.fleet.plan.settings import NAME_RULE, is_name

    if not is_name(name):
        raise InputError(f"NAME must be {NAME_RULE}, got {name!r}; files elsewhere: --out FOLDER")
    public = make_node_key(folder / f"{name}.key", name=name)
    click.echo(f"{public}: for [[nodes]] in fleet.toml")


@keys.command(epilog="Example: fedboard keys board")
@KEYS_FOLDER
def board(folder: Path) -> None:
    """Make the key pair that signs boards: board-signing.key for the server, board-signing.pub for readers."""
    from fedboard.server.publishing.signing import create_board_keys

    private, public = create_board_keys(folder)
    click.echo(f"{private}: for [board] in fleet.toml; {public}: for every reader")


@keys.command(epilog="Example: fedboard keys questions")
@KEYS_FOLDER
def questions(folder: Path) -> None:
    """Make the key pair that signs questions: question-signing.key for the server, .pub for every device.

    A device answers nothing that this key has not signed. Whoever has it can ask in the server's name.
    """
    from fedboard.common.wire.signing import QuestionKey

    private, public = QuestionKey().write(folder)
    click.echo(f"{private}: for [network] in fleet.toml; {public}: give it to every device, for its [server]")


keys.add_command(witness_key)
keys.add_command(roster_keys.identity)
keys.add_command(roster_keys.roster_authority)
keys.add_command(roster_keys.roster)
