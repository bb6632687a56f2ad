"""``fedboard server``: a fleet's server, from one configuration file."""

import asyncio
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError
from fedboard.common.files import is_locked

if TYPE_CHECKING:
    from fedboard.server.fleet.plan.settings import FleetSettings

_EXAMPLES = """\b
Examples:
  fedboard server --config fleet.toml --check
  fedboard server --config fleet.toml
  fedboard server --config fleet.toml --until-trained
  fedboard server --boards mirror --certificate server.pem --private-key server.key
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("fleet.toml"),
    envvar="FEDBOARD_FLEET",
    show_default=True,
    help="Configuration of the fleet.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Read everything, make board 0, say what it promises, try the ports, and end.",
)
@click.option("--until-trained", is_flag=True, help="End when the training is complete, or cannot be.")
@click.option(
    "--boards",
    "mirror",
    metavar="MIRROR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Serve this mirror alone, without a fleet.",
)
@click.option("--address", help="With --boards: HOST:PORT to listen on.  [default: 127.0.0.1:8445]")
@click.option(
    "--certificate", type=click.Path(path_type=Path), help="With --boards: TLS certificate; without: no TLS."
)
@click.option("--private-key", type=click.Path(path_type=Path), help="With --boards: the certificate's key.")
@click.option("--simulation", is_flag=True, help="With --boards: hand out boards of seeded noise too.")
def server(
    config: Path,
    check: bool,
    until_trained: bool,
    mirror: Path | None,
    address: str | None,
    certificate: Path | None,
    private_key: Path | None,
    simulation: bool,
) -> None:
    """Run the server of a fleet: one port for devices and readers of boards, one for you, and the training.

    It stays until Ctrl-C or SIGTERM; started again, it goes on from its state folder, also after a crash. The live
    report, metrics and health are at network.ops; `fedboard fleet status` says how it fares. A training that is
    over and lost more of its rounds than rounds.most_lost ends with exit code 6.
    """
    if mirror is not None:
        if check or until_trained:
            raise InputError("--boards serves a mirror and no fleet: leave --check and --until-trained away")
        _serve(mirror, address or "127.0.0.1:8445", certificate, private_key, simulation=simulation)
        return
    if address or certificate or private_key or simulation:
        raise InputError("--address, --certificate, --private-key and --simulation go with --boards")
    from fedboard.server.fleet.plan.credentials import require_credentials
    from fedboard.server.fleet.plan.introducing import require_named
    from fedboard.server.fleet.plan.preparing import prepare
    from fedboard.server.fleet.plan.settings import read_settings
    from fedboard.server.fleet.query_account import require_counted
    from fedboard.server.fleet.status import expiries_of

    settings = read_settings(config)
    require_credentials(settings)
    require_named(settings)
    board, promise = prepare(settings), settings.promise
    what = "queries alone" if settings.alone else board.task
    _say(
        f"{settings.name}: {what} over {board.catalogue.n_items} items, epsilon {promise.epsilon:g} at delta "
        f"{promise.delta:g} for every user ({promise.adjacency}), {promise.noise} noise, up to "
        f"{settings.most_devices} devices, protocol {settings.protocol.name}"
    )
    now = time.time()
    for expiry in expiries_of(settings):
        if expiry.is_soon(now):
            _say(expiry.sentence(now))
    if check:
        require_counted(settings)  # as the server does when it begins
        _require_ports(settings)
        return
    from fedboard.server.fleet.server import FleetServer

    running = FleetServer(settings, say=_say)
    lives_on()
    running.run(until_trained=until_trained)
    _say("stopped; start it again to go on")
    running.require_few_lost()


def _serve(
    mirror: Path, address: str, certificate: Path | None, private_key: Path | None, *, simulation: bool
) -> None:
    """Hand out the boards of a mirror until Ctrl-C, with TLS where there is a certificate."""
    from fedboard.server.publishing.service import serve_boards

    if (certificate is None) != (private_key is None):
        raise InputError("--certificate and --private-key go together: give both, or neither for no TLS")
    tls = "" if certificate else ", without TLS"
    lives_on()
    with suppress(KeyboardInterrupt):
        asyncio.run(
            serve_boards(
                mirror,
                address=address,
                certificate=certificate,
                private_key=private_key,
                simulation=simulation,
                listening=lambda port, _: _say(f"serving {mirror} on port {port}{tls}; stop with Ctrl-C"),
            )
        )


def _require_ports(settings: "FleetSettings") -> None:
    """Try the ports, unless the very server that is checked is running and has them."""
    from fedboard.common.wire.addresses import parse_address
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.grpc_port import most_connections, require_free

    if is_locked(StateFolder.of(settings).lock):
        _say("a server is running on this state folder, so its ports were not tried")
        return
    require_free(settings.network.listening, key="network.listen")
    require_free(parse_address(settings.network.ops, name="network.ops"), key="network.ops")
    most_connections()


def _say(sentence: str) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {sentence}")
