"""``fedboard witness``: see what boards a fleet publishes, and say so."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from fedboard.cli.fleet.told_to_stop import told_to_stop
from fedboard.client.starting import lives_on

_PATH = click.Path(path_type=Path)
_ROUND_SECONDS = 60.0
"""A call lasts so long; between two of them it is looked whether to stop."""
_PAUSE_SECONDS = 5.0
_LOOK_SECONDS = 0.2
_EXAMPLE = """\b
Example (fedboard keys new witness makes the key; authority.pem comes from whoever runs the fleet):
  fedboard witness --server fleet.example.org:8443 --authority authority.pem --key witness.key --begin films
"""


@click.command(epilog=_EXAMPLE)
@click.option("--server", "address", metavar="HOST:PORT", required=True, help="The fleet's server.")
@click.option("--authority", type=_PATH, help="Authority of its certificate, PEM.  [default: the system's]")
@click.option("--no-tls", is_flag=True, help="The server has no certificate: behind a proxy, or for a trial.")
@click.option("--key", type=_PATH, required=True, help="This witness's private key (witness.key).")
@click.option(
    "--memory",
    type=_PATH,
    default=Path("witness.memory"),
    show_default=True,
    help="File of what it has cosigned. Never go back to an older copy of it.",
)
@click.option(
    "--begin",
    metavar="RUN",
    multiple=True,
    help="A run that is new here: without it nothing is cosigned of a run that the memory does not hold.",
)
def witness(
    address: str, authority: Path | None, no_tls: bool, key: Path, memory: Path, begin: tuple[str, ...]
) -> None:
    """Witness the boards of a fleet: cosign each manifest that continues the one before.

    Run it where the operator of the fleet has no access. It connects to the server and holds no port; it sees
    manifests and certificates, which are public, and needs to trust nobody: it keeps the operator from showing one
    board to some people and another one to others.
    """
    from fedboard.client.boards.witness import NotCosignedError, Server, Witness
    from fedboard.common.boards.refusals import FeedRefusedError
    from fedboard.common.keys.ed25519_keys import read_private
    from fedboard.common.wire.addresses import parse_address

    place = parse_address(address, name="the address of the server").text
    one = Witness(read_private(key, signed="manifests"), memory, begin=begin)
    said = ""
    with one.alone(), closing(Server(place, tls=not no_tls, authority=authority)) as server:
        told = told_to_stop()
        click.echo(f"witness {one.public}")
        for name, link in one.known.items():
            click.echo(f"run {name}: cosigned up to version {link.manifest.version}")
        lives_on()
        while not told():
            try:
                for link in server.attend(one, seconds=_ROUND_SECONDS, told=told):
                    click.echo(f"run {link.manifest.run}: cosigned version {link.manifest.version}")
                    said = ""
            except (NotCosignedError, FeedRefusedError) as error:
                if str(error) != said:
                    click.echo(str(error), err=True)
                said = str(error)
            _pause(told)


def _pause(told: Any) -> None:
    end = time.monotonic() + _PAUSE_SECONDS
    while not told() and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
