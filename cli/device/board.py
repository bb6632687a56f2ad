"""``fedboard board``: hand boards to readers, and fetch them as one."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fedboard.cli.device.board_limits import limit_options, limits_of
from fedboard.cli.device.board_page import page
from fedboard.cli.device.board_text import record_of, tell, verdict
from fedboard.cli.device.ratings import DEVICE
from fedboard.cli.device.witnesses import WITNESSES, policy_of
from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.signing_options import DAYS, ROOTS, SIGNING_KEYS
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.style.groups import Commands
from fedboard.client.starting import lives_on
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.board_service.log.log import BoardLog
    from fedboard.server.board_service.service import Signing

_PATH = click.Path(path_type=Path)
_ENCODINGS = ("exact", "float16", "int8")
_LARGEST = 1 << 30
_PUBLIC_KEY = click.option(
    "--key",
    type=_PATH,
    required=True,
    help="The public key that signs the boards (board-signing.pub), or the root that names it (1.root.json).",
)
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
_AUTHORITY = click.option(
    "--authority", type=_PATH, help="Certificate authority to trust for TLS, PEM.  [default: the system's]"
)
_SIGN_SIMULATION = click.option(
    "--simulation",
    is_flag=True,
    help="Sign boards of seeded noise too, which protects nobody, marked as simulations for every reader.",
)
_MAX_BYTES = click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=_LARGEST,
    show_default=True,
    help="Largest board taken.",
)


@click.group(cls=Commands)
def board() -> None:
    """Publish boards to readers, and fetch and verify them as one."""


board.add_command(page)


@board.command(epilog="Example: fedboard board export runs/films --to mirror --key board-signing.key")
@click.argument("run_place", metavar="RUN", type=_PATH)
@click.option("--to", "mirror", type=_PATH, required=True, help="Folder of the mirror, made or continued.")
@SIGNING_KEYS
@click.option("--run", "run", help="Public name of the run.  [default: the name of RUN's folder]")
@ROOTS
@DAYS
@_LOG
@_ASKED
@click.option(
    "--format",
    "form",
    type=click.Choice(("mirror", "tuf")),
    default="mirror",
    show_default=True,
    help="tuf: also a repository that clients of The Update Framework read (metadata, targets).",
)
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
    form: str,
    simulation: bool,
) -> None:
    """Sign the boards of a run into a plain folder that any web server can serve.

    The folder holds signed manifests and board files by digest, in several encodings. Do it again after more
    rounds, and before the newest signature expires, which it then renews. Each board's certificate is recomputed
    first; one that does not hold, or whose noise can be reproduced from its seed, is not signed.
    """
    from fedboard.server.board_service.log.telling import sentence, told
    from fedboard.server.board_service.mirror import Mirror, publish_into
    from fedboard.server.board_service.signing import SigningKey

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
            tuf=form == "tuf",
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
    from fedboard.server.board_service.service import ServiceSettings, start_board_service
    from fedboard.server.operating.metrics import start_metrics

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


@board.command(
    epilog="Example: fedboard board fetch grpcs://boards.example.org:8445 --key board-signing.pub --to boards"
)
@click.argument("source", required=False)
@click.option("--key", type=_PATH, help="The public key that signs the boards, or a root (1.root.json).")
@click.option("--to", "cache", type=_PATH, help="Folder of the reader's boards.")
@DEVICE
@click.option(
    "--encoding",
    type=click.Choice(_ENCODINGS),
    default="exact",
    show_default=True,
    help="exact, or a smaller approximation.",
)
@click.option("--version", type=click.IntRange(min=0), help="A version other than the newest.")
@click.option("--run", help="The run to follow.  [default: the one that the folder follows]")
@click.option("--simulation", is_flag=True, help="Take boards of seeded noise too; every print says so.")
@WITNESSES
@_AUTHORITY
@_MAX_BYTES
@click.option("--follow", is_flag=True, help="Stay, and fetch each board as it is published.")
@JSON
def fetch(
    source: str | None,
    key: Path | None,
    cache: Path | None,
    device: Path,
    encoding: str,
    version: int | None,
    run: str | None,
    simulation: bool,
    witnesses: Path | None,
    authority: Path | None,
    max_bytes: int,
    follow: bool,
    as_json: bool,
) -> None:
    """Fetch a board, verify it, and keep it.

    SOURCE is grpcs://HOST:PORT of a board service, the https:// address of a mirror, or a mirror's folder. Nothing
    is sent but the board's name; what broke off is resumed. `fedboard recommend` takes the folder as its board.
    What is not given (SOURCE, --key, --to, --authority) is taken from the [board] section of the device, and
    --witnesses from its [policy]. A board whose noise can be reproduced from its seed is refused, whatever its
    manifest says, but with --simulation, or where the device's [policy] has seeded_noise = true.
    """
    from fedboard.client.boards.cache import BoardCache
    from fedboard.client.boards.feed import BoardFeed
    from fedboard.client.boards.sources import open_source
    from fedboard.common.board_service.board_signature import PinnedKey
    from fedboard.common.board_service.manifest import Encoding

    if follow and version is not None:
        raise InputError("--follow waits for new boards; leave --version out")
    reader = _reader(source, key, cache, authority, device)
    pinned = PinnedKey.read(reader.key)
    with closing(open_source(reader.source, authority=reader.authority)) as opened:
        feed = BoardFeed(
            opened,
            pinned,
            BoardCache(reader.cache),
            encoding=Encoding(encoding),
            run=run,
            max_bytes=max_bytes,
            simulation=simulation or reader.simulation,
            witnesses=policy_of(witnesses or reader.witnesses),
        )
        started = time.perf_counter()
        fetched = feed.fetch(version)
        tell(fetched, time.perf_counter() - started, as_json=as_json)
        for newer in feed.follow() if follow else ():
            tell(newer, None, as_json=as_json)


@board.command(epilog="Example: fedboard board verify mirror --key board-signing.pub")
@click.argument("source")
@_PUBLIC_KEY
@WITNESSES
@_AUTHORITY
@_MAX_BYTES
@click.option("--simulation", is_flag=True, help="Accept boards of seeded noise: 0 where all else passed.")
@click.option("--all", "with_passed", is_flag=True, help="Also list what passed.")
@JSON
def verify(
    source: str,
    key: Path,
    witnesses: Path | None,
    authority: Path | None,
    max_bytes: int,
    simulation: bool,
    with_passed: bool,
    as_json: bool,
) -> int:
    """Verify all that a source offers: signatures, the chain of boards, every byte of every file.

    What could not be checked, because the source was away or a file is larger than --max-bytes, is neither passed
    nor failed. The exit code is 0 only if everything passed and no board has seeded noise; 5 if only that is wrong.
    """
    from fedboard.client.boards.mirror_check import check_source, protection_of_source
    from fedboard.client.boards.sources import open_source
    from fedboard.common.board_service.board_signature import PinnedKey
    from fedboard.common.protection import Protection

    pinned = PinnedKey.read(key)
    with closing(open_source(source, authority=authority)) as opened:
        findings = list(check_source(opened, pinned, max_bytes=max_bytes, witnesses=policy_of(witnesses)))
    protection = protection_of_source(findings)
    passed = all(finding.passed is True for finding in findings)
    if as_json:
        document(record_of(findings, protection))
    else:
        if protection is not Protection.PRIVATE:
            click.echo(f"{protection.verdict}.\n")
        click.echo(verdict(findings, with_passed=with_passed))
    if not passed:
        return ExitCode.FAILED
    return ExitCode.DONE if simulation or protection is Protection.PRIVATE else ExitCode.NOT_PRIVATE


class _Reader(NamedTuple):
    """Where boards come from, who signs them, where they go, and who vouches for the source."""

    source: str
    key: Path
    cache: Path
    authority: Path | None
    simulation: bool = False
    """Whether the device takes boards of seeded noise."""
    witnesses: Path | None = None
    """Policy file of the device's witnesses."""


def _reader(
    source: str | None, key: Path | None, cache: Path | None, authority: Path | None, device: Path
) -> _Reader:
    """As given, or as the device has it."""
    if source is not None and key is not None and cache is not None:
        return _Reader(source, key, cache, authority)
    from fedboard.client.device.config import load_device

    config = load_device(device)
    configured = config.board
    place, public_key = source or configured.source, key or configured.public_key
    if place is None or public_key is None:
        raise InputError(f"give SOURCE and --key, or source and public_key in [board] of {device}")
    return _Reader(
        place,
        public_key,
        cache or configured.cache,
        authority or config.authority(place),
        config.policy.seeded_noise,
        config.policy.witnesses,
    )


def _boards_of(place: Path) -> Path:
    """The folder with the boards of a run directory."""
    for folder in (place / "boards", place):
        if any(folder.glob("board-*.board")):
            return folder
    raise InputError(f"{place}: no boards in this directory; give the directory of a run")


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
    from fedboard.server.board_service.service import Signing

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
    from fedboard.server.board_service.log.log import BoardLog

    if log is None:
        if witnesses is not None:
            raise InputError("--witnesses goes with --log: witnesses cosign the log, not the boards")
        yield None
        return
    with BoardLog.open(log, witnesses=witnesses) as opened:
        yield opened
