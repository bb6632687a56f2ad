"""``fedboard server``, ``helper`` and ``witness``: what serves until it is told to stop."""

import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.declaring import command, option
from fedboard.cli.options import CONFIG, PEOPLE
from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError
from fedboard.common.files import is_locked

if TYPE_CHECKING:
    from fedboard.server.fleet.settings import FleetSettings


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
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@command(
    "fedboard server --config fleet.toml --check",
    "fedboard server --config fleet.toml",
    "fedboard server --config fleet.toml --until-trained",
    "fedboard server --boards mirror --certificate server.pem --private-key server.key",
)
def server(
    config: Path = CONFIG,
    check: bool = option("Make board 0, try the ports, and end.", more="It says what the board promises."),
    until_trained: bool = option(
        "End when the training is complete.", more="With its last board published, or where it cannot be."
    ),
    mirror: Path | None = option(
        "Serve this mirror alone, without a fleet.", "--boards", metavar="MIRROR", type=_FOLDER
    ),
    address: str | None = option(
        "With --boards: HOST:PORT to listen on.  [default: 127.0.0.1:8445]", rare=True
    ),
    certificate: Path | None = option("With --boards: TLS certificate; without: no TLS.", rare=True),
    private_key: Path | None = option("With --boards: the certificate's key.", rare=True),
    simulation: bool = option("With --boards: hand out boards of seeded noise too.", rare=True),
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


@command(
    "fedboard helper --address 0.0.0.0:8446 --certificate helper.crt --private-key helper.key --token leader.token"
)
def helper(
    address: str = option("HOST:PORT to listen on; 0 is a free one.", default="127.0.0.1:8446"),
    certificate: Path = option("TLS certificate of this machine, PEM.", required=True),
    private_key: Path = option("Its key, PEM.", required=True),
    identity: Path = option(
        "Its Ed25519 key; made where there is none.",
        more="Devices know this helper by it.",
        default=Path("helper-identity.key"),
    ),
    state: Path = option(
        "Folder of the record of answered rounds.",
        more="Never go back to an older copy of it.",
        default=Path("helper-state"),
    ),
    token: Path | None = option("File with the secret that the first server must know."),
    least_clients: int = option("Refuse to help with sums of fewer clients.", type=PEOPLE, default=2),
) -> None:
    """Run the second server of protocol two-server.

    Run it where the operator of the first server has no access: privacy rests on the two not sharing what they see.
    It holds shares of users' contributions in memory, which say nothing alone, adds noise of its own, and answers
    each round of a run once, for ever. Its identity, which it prints, goes into the first server's configuration
    and into every device's policy.
    """
    from fedboard.server.helper.service import RunningHelper

    with RunningHelper(
        state=state,
        identity=identity,
        certificate=certificate,
        private_key=private_key,
        address=address,
        token=token,
        least_clients=least_clients,
    ) as running:
        told = told_to_stop()
        click.echo(f"helper {running.identity}")
        click.echo(f"listening on {address.rpartition(':')[0]}, port {running.port}; stop with Ctrl-C")
        if token is None:
            click.echo("without --token whoever reaches this port can use up rounds", err=True)
        lives_on()
        while stays(told, _PAUSE_SECONDS):
            pass


_ROUND_SECONDS = 60.0
"""A call lasts so long; between two of them it is looked whether to stop."""
_PAUSE_SECONDS = 5.0


@command(
    "fedboard witness --server fleet.example.org:8443 --authority authority.pem --key witness.key --begin films"
)
def witness(
    address: str = option("The fleet's server.", "--server", metavar="HOST:PORT", required=True),
    authority: Path | None = option("Authority of its certificate, PEM.  [default: the system's]"),
    no_tls: bool = option("The server has no certificate: behind a proxy, or for a trial."),
    key: Path = option("This witness's private key (witness.key).", required=True),
    memory: Path = option(
        "File of what it has cosigned. Never go back to an older copy of it.", default=Path("witness.memory")
    ),
    begin: tuple[str, ...] = option(
        "A run that is new here: without it nothing is cosigned of a run that the memory does not hold.",
        metavar="RUN",
    ),
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
