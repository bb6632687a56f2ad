"""``fedboard board``: hand boards to readers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fedboard.cli.device.board_limits import limit_options, limits_of
from fedboard.cli.device.board_page import page
from fedboard.cli.device.board_reading import fetch, verify
from fedboard.cli.signing_options import DAYS, ROOTS, SIGNING_KEYS
from fedboard.cli.style.groups import Commands
from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError, PrivacyError

if TYPE_CHECKING:
    from fedboard.server.publishing.log.log import BoardLog
    from fedboard.server.publishing.service import Signing

_PATH = click.Path(path_type=Path)
_LOG = click.option(
    "--log",
    type=_PATH,
    help="Folder of the run's log of boards (see keys log), where they are written down first.",
)
_ASKED = click.option(
    "--witnesses",
    type=_PATH,
    help="Policy file of the witnesses that are asked to cosign the log, with --log.",
)
_SIGN_SIMULATION = click.option(
    "--simulation",
    is_flag=True,
    help="Sign boards of seeded noise too, which protects nobody, marked as simulations for every reader.",
)


@click.group(cls=Commands)
def board() -> None:
    """Publish boards to readers, and fetch and verify them as one."""


@board.command(epilog="Example: fedboard board export runs/films --to mirror --key board-signing.key")
@click.argument("run_place", metavar="RUN", type=_PATH)
@click.option("--to", "mirror", type=_PATH, required=True, help="Folder of the mirror, made or continued.")
@SIGNING_KEYS
@click.option("--run", "run", help="Public name of the run.  [default: the name of RUN's folder]")
@ROOTS
@DAYS
@_LOG
@_ASKED
@_SIGN_SIMULATION
def export(
    run_place: Path,
    mirror: Path,
    keys: tuple[Path, ...],
    run: str | None,
    roots: Path | None,
    days: float,
    log: Path | None,
    witnesses: Path | None,
    simulation: bool,
) -> None:
    """Sign the boards of a run into a plain folder that any web server can serve.

    The folder holds signed manifests and board files by digest, in several encodings. Do it again after more
    rounds, and before the newest signature expires, which it then renews. Each board's certificate is recomputed
    first; one that does not hold, or whose noise can be reproduced from its seed, is not signed.
    """
    from fedboard.server.publishing.log.telling import sentence, told
    from fedboard.server.publishing.mirror import Mirror, publish_into
    from fedboard.server.publishing.signing import SigningKey

    with _opened_log(log, witnesses) as opened:
        new = publish_into(
            Mirror(mirror),
            _boards_of(run_place),
            key=SigningKey.read(*keys),
            run=_run_name(run_place, run),
            simulation=simulation,
            days=days,
            roots=roots,
            log=opened,
        )
    click.echo(f"{len(new)} boards signed into {mirror}" if new else f"{mirror} has them all already")
    if log is not None:
        click.echo(sentence(told(log)))


@board.command(epilog="Example: fedboard board serve mirror --boards runs/films --key board-signing.key")
@click.argument("mirror", type=_PATH)
@click.option("--boards", type=_PATH, help="A run whose boards are signed into the mirror as they appear.")
@click.option(
    "--key",
    "keys",
    type=_PATH,
    multiple=True,
    help="The private signing key, with --boards; several where the root asks for them.",
)
@click.option("--run", help="Public name of the run, with --boards.  [default: the name of its folder]")
@ROOTS
@DAYS
@_LOG
@_ASKED
@click.option(
    "--simulation",
    is_flag=True,
    help="Serve boards of seeded noise too (and sign them, with --boards), marked as simulations for every reader.",
)
@click.option("--address", default="127.0.0.1:8445", show_default=True, help="HOST:PORT to listen on.")
@click.option("--certificate", type=_PATH, help="TLS certificate, PEM.")
@click.option("--private-key", type=_PATH, help="Its key, PEM.")
@click.option(
    "--no-tls", is_flag=True, help="Serve without TLS: behind a proxy on this machine, or for a trial."
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics and /healthz there.")
@limit_options
def serve(
    mirror: Path,
    boards: Path | None,
    keys: tuple[Path, ...],
    run: str | None,
    roots: Path | None,
    days: float,
    log: Path | None,
    witnesses: Path | None,
    simulation: bool,
    address: str,
    certificate: Path | None,
    private_key: Path | None,
    no_tls: bool,
    metrics: str | None,
    **limits: Any,
) -> None:
    """Serve a mirror over gRPC, to anybody, without asking who.

    Needs no signing key: manifests in the mirror are signed already. With --boards and --key it signs the boards of
    a run as they are published, and signs the newest again before its signature expires.
    """
    from fedboard.server.operating.metrics import start_metrics
    from fedboard.server.publishing.service import ServiceSettings, start_board_service

    if no_tls == (certificate is not None and private_key is not None):
        raise InputError("give --certificate and --private-key, or --no-tls")
    if boards is None and not mirror.is_dir():
        raise InputError(
            f"{mirror}: no such folder; make it with `fedboard board export`, or give --boards and --key"
        )
    settings = ServiceSettings(
        mirror=mirror,
        signing=_signing(
            boards, keys, run, roots=roots, days=days, logged=_Logged(folder=log, witnesses=witnesses)
        ),
        simulation=simulation,
        address=address,
        certificate=certificate,
        private_key=private_key,
        limits=limits_of(limits),
    )
    with ExitStack() as stack:
        service = stack.enter_context(start_board_service(settings))
        click.echo(f"serving {mirror} on port {service.port}; stop with Ctrl-C")
        if metrics is not None:
            told = start_metrics(metrics, service=service.counters, problem=lambda: service.problem)
            stack.enter_context(told)
            click.echo(f"metrics on port {told.port}")
        lives_on()
        while not service.wait(1.0):
            pass


def _boards_of(place: Path) -> Path:
    """The folder with the boards of a run directory, whose ledger booked what they state."""
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.verification import verify_evidence

    if not place.is_dir():
        raise InputError(f"{place}: no boards in this directory; give the directory of a run")
    evidence = read_evidence(place)
    for finding in verify_evidence(evidence):
        if finding.check in ("ledger", "booked releases") and not finding.passed:
            raise PrivacyError(f"{place}: {finding.detail}; its boards are not signed")
    return evidence.boards[0].parent


def _run_name(place: Path, given: str | None) -> str:
    return given or place.resolve().name


class _Logged(NamedTuple):
    """Where boards are logged, and who is asked to cosign."""

    folder: Path | None
    witnesses: Path | None


def _signing(
    boards: Path | None,
    keys: tuple[Path, ...],
    run: str | None,
    *,
    roots: Path | None,
    days: float,
    logged: _Logged,
) -> "Signing | None":
    from fedboard.server.publishing.service import Signing

    if (logged.folder and not boards) or (logged.witnesses and not logged.folder):
        raise InputError("--log goes with --boards, and --witnesses with --log")
    if boards is None and not keys:
        return None
    if boards is None or not keys:
        raise InputError("--boards and --key go together: the boards to sign, and what signs them")
    key, *more = keys
    return Signing(
        boards=_boards_of(boards),
        key=key,
        run=_run_name(boards, run),
        more_keys=tuple(more),
        roots=roots,
        days=days,
        log=logged.folder,
        witnesses=logged.witnesses,
    )


@contextmanager
def _opened_log(log: Path | None, witnesses: Path | None) -> "Iterator[BoardLog | None]":
    """The log of boards, if there is one."""
    from fedboard.server.publishing.log.log import BoardLog

    if log is None:
        if witnesses is not None:
            raise InputError("--witnesses goes with --log: witnesses cosign the log, not the boards")
        yield None
        return
    with BoardLog.open(log, witnesses=witnesses) as opened:
        yield opened


for _command in (page, fetch, verify):
    board.add_command(_command)
