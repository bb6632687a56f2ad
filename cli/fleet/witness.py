"""``fedboard witness``: see what boards somebody publishes, and say so."""

import time
from pathlib import Path

import click

from fedboard.cli.fleet.told_to_stop import told_to_stop
from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError

_PATH = click.Path(path_type=Path)
_LOOK_SECONDS = 0.2
_EXAMPLE = """\b
Example (fedboard keys witness makes the key; the log's public key comes from whoever runs the fleet):
  fedboard witness --key keys/witness.key --log board-log.pub --listen 0.0.0.0
"""


@click.command(epilog=_EXAMPLE)
@click.option("--key", type=_PATH, required=True, help="This witness's private key (witness.key).")
@click.option(
    "--log",
    "logs",
    metavar="KEY",
    multiple=True,
    required=True,
    help="Public key of a log of boards, or the file of it (board-log.pub); may be given several times.",
)
@click.option(
    "--state",
    type=_PATH,
    default=Path("witness-state"),
    show_default=True,
    help="Folder of what it has seen. Never go back to an older copy of it.",
)
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8447,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option("--certificate", type=_PATH, help="TLS certificate, PEM.  [default: no TLS, for a proxy]")
@click.option("--private-key", type=_PATH, help="Its key, PEM.")
@click.option(
    "--behind-proxy", is_flag=True, help="Everybody comes from one address: no limit of one address."
)
def witness(
    key: Path,
    logs: tuple[str, ...],
    state: Path,
    listen: str,
    port: int,
    certificate: Path | None,
    private_key: Path | None,
    behind_proxy: bool,
) -> None:
    """Witness the boards that others publish: cosign each state of a log that continues the one before.

    Run it where the operator of the fleet has no access. It sees hashes alone, and needs to trust nobody: it keeps
    the operator from showing one log to some people and another one to others. It speaks C2SP's tlog-witness, so
    logs of any kind may ask it.
    """
    from fedboard.common.boards.log.note_keys import NoteKey, read_verifier
    from fedboard.common.boards.log.notes import Kind
    from fedboard.common.wire.addresses import Address
    from fedboard.server.publishing.log.witness.service import PER_ADDRESS, RunningWitness, WitnessSettings
    from fedboard.server.publishing.log.witness.witness import Witness

    if (certificate is None) != (private_key is None):
        raise InputError("--certificate and --private-key go together; leave both out behind a proxy")
    own = NoteKey.read(key, kind=Kind.COSIGNATURE)
    one = Witness(own, [read_verifier(log, kind=Kind.NOTE) for log in logs], state)
    settings = WitnessSettings(
        address=Address(listen, port).text,
        certificate=certificate,
        private_key=private_key,
        connections_per_address=0 if behind_proxy else PER_ADDRESS,
    )
    with one.alone(), RunningWitness(one, settings) as running:
        told = told_to_stop()
        click.echo(f"witness {own.public}")
        for origin, size in one.sizes.items():
            click.echo(f"log {origin}: {size} entries seen so far")
        click.echo(f"listening on {listen}, port {running.port}; stop with Ctrl-C")
        lives_on()
        while not told():
            time.sleep(_LOOK_SECONDS)
