"""``fedboard server``: a fleet's server, from one configuration file."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from fedboard.cli.live_page import LIVE, serving
from fedboard.cli.style.documents import JSON, document
from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.boards.board_signature import PinnedKey
    from fedboard.common.wire.live.place import Place
    from fedboard.server.fleet.plan.settings import FleetSettings
    from fedboard.server.operating.live.run_source import RunSource

_EXAMPLES = """\b
Examples:
  fedboard server --config fleet.toml --check
  fedboard server --config fleet.toml
  fedboard server --config fleet.toml --until-trained
  fedboard server --config fleet.toml --live 127.0.0.1:8717
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
    "--status", is_flag=True, help="Say how the training fares: rounds made and lost, epsilon spent; and end."
)
@JSON
@LIVE
def server(
    config: Path,
    check: bool,
    until_trained: bool,
    status: bool,
    as_json: bool,
    live: str | None,
) -> None:
    """Run the server of a fleet: SuperLink, the proxy that devices reach, the board service, the training.

    It stays until Ctrl-C or SIGTERM, starts again whatever ends, and goes on from its state folder after a crash.
    SIGHUP makes it read [[nodes]] again, and say which other changes wait for its next start. A training that is
    over and lost more of its rounds than rounds.most_lost ends with exit code 6.
    """
    from fedboard.server.fleet.plan.credentials import require_credentials
    from fedboard.server.fleet.plan.introducing import require_named
    from fedboard.server.fleet.plan.preparing import prepare
    from fedboard.server.fleet.plan.settings import read_settings
    from fedboard.server.fleet.processes.fleet_status import expiries_of
    from fedboard.server.fleet.questions.account import require_counted

    settings = read_settings(config)
    if live is not None and (status or check):
        raise InputError("--live goes with a server that runs: leave it out, or --status and --check")
    if status:
        _tell_status(settings, as_json=as_json)
        return
    if as_json:
        raise InputError("--json goes with --status")
    require_credentials(settings)
    require_named(settings)
    board = prepare(settings)
    privacy, questions = settings.privacy, settings.questions
    what, epsilon = board.task, privacy.epsilon
    if questions is not None and questions.alone:
        what, epsilon = "questions alone", questions.epsilon
    _say(
        f"{settings.name}: {what} over {board.catalogue.n_items} items, epsilon {epsilon:g} at delta "
        f"{privacy.delta:g} for every user ({privacy.adjacency}), {privacy.noise} noise, "
        f"{len(settings.nodes)} nodes admitted{_and_invited(settings)}, protocol {settings.protocol.name}"
    )
    now = time.time()
    for expiry in expiries_of(settings):
        if expiry.is_soon(now):
            _say(expiry.sentence(now))
    if check:
        require_counted(settings)  # as the supervisor does when it begins
        _require_ports(settings)
        return
    from fedboard.server.fleet.processes.supervisor import Supervisor

    _say(f"devices connect to {settings.network.listen}:{settings.network.port}")
    supervisor = Supervisor(settings, config.absolute(), say=_say)
    lives_on()
    try:
        with _watched(settings, live):
            signal.signal(signal.SIGHUP, supervisor.reload)
            supervisor.run(Event(), until_trained=until_trained)
    except KeyboardInterrupt:
        _say("stopped; start it again to go on")
    supervisor.require_few_lost()


def _and_invited(settings: "FleetSettings") -> str:
    enrolment = settings.enrolment
    return "" if enrolment is None else f" and up to {enrolment.max_devices} by invitation"


@contextmanager
def _watched(settings: "FleetSettings", address: str | None) -> Iterator[None]:
    """Serve the page of the training where there is an address, while the block runs.

    Raises:
        InputError: the address cannot be used.
    """
    if address is None:
        yield
        return
    from fedboard.common.wire.live.place import RUN_PORT, place_of

    place = place_of(address, port=RUN_PORT)
    with serving(place, _source(settings, place)):
        yield


def _source(settings: "FleetSettings", place: "Place") -> "RunSource":
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.fleet.processes.fleet_status import Standing
    from fedboard.server.operating.live.run_files import RunFiles
    from fedboard.server.operating.live.run_source import RunSource

    state, board = StateFolder.of(settings), settings.board
    key = board.signing_key if board.enabled else None
    return RunSource(
        files=RunFiles(folder=state.run, mirror=None if key is None else state.mirror),
        for_operator=place.is_loopback,
        fleet=Standing(settings),
        key=None if key is None else _pinned(key, board.roots),
    )


def _pinned(key: Path, roots: Path | None) -> "PinnedKey":
    """What readers have pinned: the first root where there are any, which outlives the key."""
    from fedboard.common.boards.board_signature import PinnedKey
    from fedboard.common.keys.root_folder import RootFolder
    from fedboard.server.publishing.signing import SigningKey

    chain = [] if roots is None else RootFolder(roots).chain()
    return PinnedKey(chain[0]) if chain else SigningKey.read(key).public


def _tell_status(settings: "FleetSettings", *, as_json: bool) -> None:
    """From the files alone, whether the server is running or not."""
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.fleet.processes.work_locks import is_locked
    from fedboard.server.fleet.rounds.round_log import RoundLog
    from fedboard.server.operating.run_fares import Fares, require_few_lost
    from fedboard.server.publishing.mirror_files import Mirror

    state = StateFolder.of(settings)
    fares = Fares.of(RoundLog(state.run / "rounds.jsonl").lines())
    running, epsilon = state.lock.exists() and is_locked(state.lock), settings.privacy.epsilon
    rounds = {"planned": fares.planned, "made": fares.made, "lost": fares.lost}
    waiting = Mirror(state.mirror).waiting()
    budget = {"spent": fares.spent, "limit": epsilon, "left": max(epsilon - fares.spent, 0.0)}
    if as_json:
        record = {"name": settings.name, "running": running, "rounds": rounds, "epsilon": budget}
        document({**record, "waiting": waiting})
    else:
        click.echo(
            f"{settings.name}: {fares.sentence} of {epsilon:g}; a server is {'' if running else 'not '}running here"
        )
        if waiting is not None:
            click.echo(f"not shown yet: {waiting}")
    require_few_lost(fares, most_lost=settings.rounds.most_lost)


def _require_ports(settings: "FleetSettings") -> None:
    """Try the ports, unless the very server that is checked is running and has them."""
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.fleet.processes.ports import require_descriptors, require_free_ports
    from fedboard.server.fleet.processes.work_locks import is_locked

    if is_locked(StateFolder.of(settings).lock):
        _say("a server is running on this state folder, so its ports were not tried")
    else:
        require_free_ports(settings)
        require_descriptors(settings)


def _say(sentence: str) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {sentence}")
