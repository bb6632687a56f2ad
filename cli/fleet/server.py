"""``fedboard server``, ``helper`` and ``witness``: what serves until it is told to stop."""

import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.counts import PEOPLE
from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError
from fedboard.common.files import is_locked

if TYPE_CHECKING:
    from fedboard.server.fleet.settings import FleetSettings

PATH = click.Path(path_type=Path)
CONFIG = click.option(
    "--config",
    type=PATH,
    default=Path("fleet.toml"),
    envvar="FEDBOARD_FLEET",
    show_default=True,
    help="Configuration of the fleet.",
)


def told_to_stop() -> Callable[[], bool]:
    """Take SIGTERM and SIGINT from now on.

    Returns:
        Whether one came. The handlers take no lock: one that did, such as an event's, would wait for ever where the
        signal comes while the main thread holds it.
    """
    came: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: came.append(sent))
    return lambda: bool(came)


def stays(told: Callable[[], bool], seconds: float) -> bool:
    """Wait for so long, or until ``told`` to stop; whether to go on."""
    end = time.monotonic() + seconds
    while not told() and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return not told()


_LOOK_SECONDS = 0.1
_SERVER_EXAMPLES = """\b
Examples:
  fedboard server --config fleet.toml --check
  fedboard server --config fleet.toml
  fedboard server --config fleet.toml --until-trained
  fedboard server --boards mirror --certificate server.pem --private-key server.key
"""


@click.command(epilog=_SERVER_EXAMPLES)
@CONFIG
@click.option(
    "--check",
    is_flag=True,
    help="Read everything, make board 0, say what it promises, try the ports, and end.",
)
@click.option(
    "--until-trained",
    is_flag=True,
    help="End when the training is complete and its last board published, or cannot be.",
)
@click.option(
    "--boards",
    "mirror",
    metavar="MIRROR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Serve this mirror alone, without a fleet.",
)
@click.option("--address", help="With --boards: HOST:PORT to listen on.  [default: 127.0.0.1:8445]")
@click.option("--certificate", type=PATH, help="With --boards: TLS certificate; without: no TLS.")
@click.option("--private-key", type=PATH, help="With --boards: the certificate's key.")
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
    from fedboard.server.fleet.queries import require_counted
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.status import expiries_of

    settings = read_settings(config)
    _say(made_ready(settings))
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


def made_ready(settings: "FleetSettings") -> str:
    """See that a fleet's keys go together, and make board 0 and the register; what it promises, in a sentence."""
    from fedboard.server.fleet.credentials import require_credentials
    from fedboard.server.fleet.job import prepare

    require_credentials(settings)
    board, promise = prepare(settings), settings.promise
    what = "queries alone" if settings.alone else board.task
    return (
        f"{settings.name}: {what} over {board.catalogue.n_items} items, epsilon {promise.epsilon:g} at delta "
        f"{promise.delta:g} for every user ({promise.adjacency}), {promise.noise} noise, up to "
        f"{settings.capacity.devices} devices, protocol {settings.protocol.name}"
    )


def _serve(
    mirror: Path, address: str, certificate: Path | None, private_key: Path | None, *, simulation: bool
) -> None:
    """Hand out the boards of a mirror until Ctrl-C, with TLS where there is a certificate."""
    import asyncio  # megabytes that no other command needs

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
    from fedboard.common.messages.addresses import parse_address
    from fedboard.server.fleet.state_folder import StateFolder
    from fedboard.server.grpc_port import most_connections, require_free

    if is_locked(StateFolder.of(settings).lock):
        _say("a server is running on this state folder, so its ports were not tried")
        return
    require_free(settings.network.listening, key="network.listen")
    require_free(parse_address(settings.network.ops, name="network.ops"), key="network.ops")
    most_connections()


def _say(sentence: str) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {sentence}")


_HELPER_EXAMPLE = """\b
Example (fedboard keys renew makes the certificate):
  openssl rand -hex 32 > leader.token; chmod 600 leader.token
  fedboard helper --listen 0.0.0.0 --certificate helper.crt --private-key helper.key --token leader.token
"""


@click.command(epilog=_HELPER_EXAMPLE)
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8446,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option("--certificate", type=PATH, required=True, help="TLS certificate of this machine, PEM.")
@click.option("--private-key", type=PATH, required=True, help="Its key, PEM.")
@click.option(
    "--identity",
    type=PATH,
    default=Path("helper-identity.key"),
    show_default=True,
    help="Ed25519 key that devices know this helper by; made where there is none.",
)
@click.option(
    "--state",
    type=PATH,
    default=Path("helper-state"),
    show_default=True,
    help="Folder of the record of answered rounds. Never go back to an older copy of it.",
)
@click.option("--token", type=PATH, help="File with the secret that the first server must know.")
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
    from fedboard.common.messages.addresses import Address
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
        while stays(told, _PAUSE_SECONDS):
            pass


_ROUND_SECONDS = 60.0
"""A call lasts so long; between two of them it is looked whether to stop."""
_PAUSE_SECONDS = 5.0
_WITNESS_EXAMPLE = """\b
Example (fedboard keys new witness makes the key; authority.pem comes from whoever runs the fleet):
  fedboard witness --server fleet.example.org:8443 --authority authority.pem --key witness.key --begin films
"""


@click.command(epilog=_WITNESS_EXAMPLE)
@click.option("--server", "address", metavar="HOST:PORT", required=True, help="The fleet's server.")
@click.option("--authority", type=PATH, help="Authority of its certificate, PEM.  [default: the system's]")
@click.option("--no-tls", is_flag=True, help="The server has no certificate: behind a proxy, or for a trial.")
@click.option("--key", type=PATH, required=True, help="This witness's private key (witness.key).")
@click.option(
    "--memory",
    type=PATH,
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
    from fedboard.common.boards.ed25519_keys import read_private
    from fedboard.common.boards.refusals import FeedRefusedError
    from fedboard.common.messages.addresses import parse_address

    place = parse_address(address, name="the address of the server").text
    one = Witness(read_private(key, signed="manifests"), memory, begin=begin)
    said = ""
    with one.alone(), closing(Server(place, tls=not no_tls, authority=authority)) as server:
        told = told_to_stop()
        click.echo(f"witness {one.public}")
        for name, link in one.known.items():
            click.echo(f"run {name}: cosigned up to version {link.manifest.version}")
        lives_on()
        going = True
        while going:
            try:
                for link in server.attend(one, seconds=_ROUND_SECONDS, told=told):
                    click.echo(f"run {link.manifest.run}: cosigned version {link.manifest.version}")
                    said = ""
            except (NotCosignedError, FeedRefusedError) as error:
                if str(error) != said:
                    click.echo(str(error), err=True)
                said = str(error)
            going = stays(told, _PAUSE_SECONDS)
