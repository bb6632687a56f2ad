"""``fedboard helper``: the second of two servers."""

import time
from pathlib import Path

import click

from fedboard.cli.counts import PEOPLE
from fedboard.cli.fleet.told_to_stop import told_to_stop
from fedboard.client.starting import lives_on

_PATH = click.Path(path_type=Path)
_LOOK_SECONDS = 0.2
_EXAMPLE = """\b
Example (fedboard keys renew makes the certificate):
  openssl rand -hex 32 > leader.token; chmod 600 leader.token
  fedboard helper --listen 0.0.0.0 --certificate helper.crt --private-key helper.key --token leader.token
"""


@click.command(epilog=_EXAMPLE)
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8446,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option("--certificate", type=_PATH, required=True, help="TLS certificate of this machine, PEM.")
@click.option("--private-key", type=_PATH, required=True, help="Its key, PEM.")
@click.option(
    "--identity",
    type=_PATH,
    default=Path("helper-identity.key"),
    show_default=True,
    help="Ed25519 key that devices know this helper by; made where there is none.",
)
@click.option(
    "--state",
    type=_PATH,
    default=Path("helper-state"),
    show_default=True,
    help="Folder of the record of answered rounds. Never go back to an older copy of it.",
)
@click.option("--token", type=_PATH, help="File with the secret that the first server must know.")
@click.option(
    "--least-clients",
    type=PEOPLE,
    default=2,
    show_default=True,
    help="Refuse to help with sums of fewer clients.",
)
def helper(
    listen: str,
    port: int,
    certificate: Path,
    private_key: Path,
    identity: Path,
    state: Path,
    token: Path | None,
    least_clients: int,
) -> None:
    """Run the second server of protocol two-server.

    Run it where the operator of the first server has no access: privacy rests on the two not sharing what they see.
    It holds shares of users' contributions in memory, which say nothing alone, adds noise of its own, and answers
    each round of a run once, for ever. Its identity, which it prints, goes into the first server's configuration
    and into every device's policy.
    """
    from fedboard.common.wire.addresses import Address
    from fedboard.server.helper.service import RunningHelper

    with RunningHelper(
        state=state,
        identity=identity,
        certificate=certificate,
        private_key=private_key,
        address=Address(listen, port).text,
        token=token,
        least_clients=least_clients,
    ) as running:
        told = told_to_stop()
        click.echo(f"helper {running.identity}")
        click.echo(f"listening on {listen}, port {running.port}; stop with Ctrl-C")
        if token is None:
            click.echo("without --token whoever reaches this port can use up rounds", err=True)
        lives_on()
        while not told():
            time.sleep(_LOOK_SECONDS)
