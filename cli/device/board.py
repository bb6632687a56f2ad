"""``fedboard board``: boards signed for readers, fetched as one, and written as a page."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fedboard.cli.device.board_options import mark, witness_options
from fedboard.cli.device.ratings import DEVICE
from fedboard.cli.documents import JSON, document
from fedboard.cli.groups import Commands
from fedboard.cli.signing_options import DAYS, ROOTS, SIGNING_KEYS
from fedboard.common.errors import InputError, PrivacyError

if TYPE_CHECKING:
    from fedboard.client.boards.feed import BoardFeed, Fetched
    from fedboard.common.boards.witnesses import Witnesses


def tell(fetched: "Fetched", seconds: float | None, *, as_json: bool) -> None:
    """Print what was fetched; ``seconds`` is how long it took, where that is known."""
    manifest = fetched.manifest
    if as_json:
        document(_record(fetched, seconds))
        return
    how = f"{fetched.received} bytes" if fetched.received else "here already"
    click.echo(f"version {manifest.version} of {manifest.run}, published {manifest.published}: {how}")
    if manifest.protection.value != "private":
        click.echo(f"  {manifest.protection.verdict}")
    click.echo(f"  {fetched.path}")


def _record(fetched: "Fetched", seconds: float | None) -> dict[str, Any]:
    manifest = fetched.manifest
    return {
        "run": manifest.run,
        "version": manifest.version,
        "board_digest": manifest.board_digest,
        "private": manifest.protection.value == "private",
        "noise": manifest.protection.value,
        "published": manifest.published,
        "received_bytes": fetched.received,
        "seconds": seconds,
        "path": str(fetched.path),
    }


_PATH = click.Path(path_type=Path)
_AUTHORITY = click.option(
    "--authority", type=_PATH, help="Certificate authority to trust for TLS, PEM.  [default: the system's]"
)


@click.command(epilog="Example: fedboard board page runs/films --out films.html")
@click.argument("source", metavar="RUN|MIRROR")
@click.option("--out", type=_PATH, required=True, help="The HTML file to write.")
@click.option("--key", type=_PATH, help="The public key that signs the boards of a mirror (boards.pub).")
@witness_options
@_AUTHORITY
def page(
    source: str,
    out: Path,
    key: Path | None,
    witnesses: "Witnesses | None",
    authority: Path | None,
) -> None:
    """Write a board as one HTML file that needs nothing else.

    RUN is a run directory or a board file, MIRROR what `fedboard board fetch` takes; its signatures and its chain
    are verified first. Whoever opens the file in a browser looks titles up, rates some and gets recommendations
    with reasons, computed there as `fedboard recommend` does it; the page checks signature and certificate by
    itself, and its policy forbids it to send anything. A board whose noise follows from a seed is shown as what it
    is: not private.
    """
    from fedboard.client.page.boards import held_board
    from fedboard.client.page.writing import write_page
    from fedboard.common.boards.board_signature import PinnedKey

    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: there is no such folder; make it first")
    if key is None and witnesses is not None:
        raise InputError("--witness goes with --key, the public key that signs the boards of a mirror")
    pinned = None if key is None else PinnedKey.read(key, witnesses=witnesses)
    held = held_board(source, key=pinned, authority=authority)
    size = write_page(out, held, key=pinned)
    mark(held.board)
    click.echo(f"{out}: {size / 1000:.0f} kB, the board inside; open it in a browser")


_LARGEST = 1 << 30
_MAX_BYTES = click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=_LARGEST,
    show_default=True,
    help="Largest board taken.",
)


@click.command(
    epilog="Example: fedboard board fetch grpcs://boards.example.org:8445 --key boards.pub --to boards"
)
@click.argument("source", required=False)
@click.option("--key", type=_PATH, help="The public key that signs the boards, or a root (1.root.json).")
@click.option("--to", "cache", type=_PATH, help="Folder of the reader's boards.")
@DEVICE
@click.option("--version", type=click.IntRange(min=0), help="A version other than the newest.")
@click.option("--run", help="The run to follow.  [default: the one that the folder follows]")
@click.option("--simulation", is_flag=True, help="Take boards of seeded noise too; every print says so.")
@witness_options
@_AUTHORITY
@_MAX_BYTES
@click.option("--follow", is_flag=True, help="Stay, and fetch each board as it is published.")
@JSON
def fetch(
    source: str | None,
    key: Path | None,
    cache: Path | None,
    device: Path,
    version: int | None,
    run: str | None,
    simulation: bool,
    witnesses: "Witnesses | None",
    authority: Path | None,
    max_bytes: int,
    follow: bool,
    as_json: bool,
) -> None:
    """Fetch a board, verify it, and keep it.

    SOURCE is grpcs://HOST:PORT of a board service, the https:// address of a mirror, or a mirror's folder. Nothing
    is sent but the board's name; what broke off is resumed. `fedboard recommend` takes the folder as its board.
    What is not given (SOURCE, --key, --to, --authority, --witness) is taken from [boards] of the device.
    A board whose noise can be reproduced from its seed is refused, whatever its
    manifest says, but with --simulation, or where the device's [policy] has seeded_noise = true.
    """
    if follow and version is not None:
        raise InputError("--follow waits for new boards; leave --version out")
    reader = _reader(source, key, cache, authority, device)
    reader = reader._replace(
        simulation=simulation or reader.simulation, witnesses=witnesses or reader.witnesses
    )
    with _feed(reader, run=run, max_bytes=max_bytes) as feed:
        started = time.perf_counter()
        fetched = feed.fetch(version)
        tell(fetched, time.perf_counter() - started, as_json=as_json)
        for newer in feed.follow() if follow else ():
            tell(newer, None, as_json=as_json)


def fetch_first(device: Path) -> None:
    """Get the newest board where a device has none yet, and knows where from.

    Args:
        device: its ``device.toml``.

    Raises:
        InputError: nobody answers there.
        FeedRefusedError: what is there is not believed.
    """
    from fedboard.client.participation.config import load_device

    config = load_device(device)
    known = config.board.source is not None and config.board.public_key is not None
    if not known or any(config.board.cache.glob("board-*.board")):
        return
    with _feed(_reader(None, None, None, None, device)) as feed:
        feed.fetch()


class _Reader(NamedTuple):
    """Where boards come from, who signs them, where they go, and who vouches for the source."""

    source: str
    key: Path
    cache: Path
    authority: Path | None
    simulation: bool = False
    """Whether the device takes boards of seeded noise."""
    witnesses: "Witnesses | None" = None
    """Who must have cosigned, by the device's own policy."""


@contextmanager
def _feed(reader: _Reader, **how: Any) -> Iterator["BoardFeed"]:
    from fedboard.client.boards.cache import BoardCache
    from fedboard.client.boards.feed import BoardFeed
    from fedboard.client.boards.sources import open_source
    from fedboard.common.boards.board_signature import PinnedKey

    pinned = PinnedKey.read(reader.key, witnesses=reader.witnesses)
    with closing(open_source(reader.source, authority=reader.authority)) as source:
        yield BoardFeed(source, pinned, BoardCache(reader.cache), simulation=reader.simulation, **how)


def _reader(
    source: str | None, key: Path | None, cache: Path | None, authority: Path | None, device: Path
) -> _Reader:
    """As given, or as the device has it."""
    if source is not None and key is not None and cache is not None:
        return _Reader(source, key, cache, authority)
    from fedboard.client.participation.config import load_device

    config = load_device(device)
    configured = config.board
    place, public_key = source or configured.source, key or configured.public_key
    if place is None or public_key is None:
        raise InputError(f"give SOURCE and --key, or source and public_key in [boards] of {device}")
    return _Reader(
        place,
        public_key,
        cache or configured.cache,
        authority or config.authority(place),
        config.policy.seeded_noise,
        config.witnesses,
    )


_SIGN_SIMULATION = click.option(
    "--simulation",
    is_flag=True,
    help="Sign boards of seeded noise too, which protects nobody, marked as simulations for every reader.",
)


@click.group(cls=Commands)
def board() -> None:
    """Publish boards to readers, and fetch and verify them as one."""


@board.command(epilog="Example: fedboard board export runs/films --to mirror --key boards.key")
@click.argument("run_place", metavar="RUN", type=_PATH)
@click.option("--to", "mirror", type=_PATH, required=True, help="Folder of the mirror, made or continued.")
@SIGNING_KEYS
@click.option("--run", "run", help="Public name of the run.  [default: the name of RUN's folder]")
@ROOTS
@DAYS
@witness_options
@_SIGN_SIMULATION
def export(
    run_place: Path,
    mirror: Path,
    keys: tuple[Path, ...],
    run: str | None,
    roots: Path | None,
    days: float,
    witnesses: "Witnesses | None",
    simulation: bool,
) -> None:
    """Sign the boards of a run into a plain folder that any web server can serve.

    The folder holds signed manifests and packed board files by digest. Do it again after more
    rounds, and before the newest signature expires, which it then renews. Each board's certificate is recomputed
    first; one that does not hold, or whose noise can be reproduced from its seed, is not signed. With --witness a
    board is shown once so many of them have cosigned it, which they do where `fedboard server` serves MIRROR.
    """
    from fedboard.server.publishing.mirror import Mirror, publish_into
    from fedboard.server.publishing.signing import SigningKey

    place = Mirror(mirror)
    new = publish_into(
        place,
        _boards_of(run_place),
        key=SigningKey.read(*keys),
        run=run or run_place.resolve().name,
        simulation=simulation,
        days=days,
        roots=roots,
        witnesses=witnesses or place.witnesses,
    )
    click.echo(f"{len(new)} boards signed into {mirror}" if new else f"{mirror} has them all already")
    if (waiting := place.waiting()) is not None:
        click.echo(f"not shown yet: {waiting}")


def _boards_of(place: Path) -> Path:
    """The folder with the boards of a run directory, whose ledger booked what they state."""
    from fedboard.client.verification.evidence import read_evidence
    from fedboard.client.verification.verification import OF_LEDGER, verify_evidence

    if not place.is_dir():
        raise InputError(f"{place}: no boards in this directory; give the directory of a run")
    evidence = read_evidence(place)
    for finding in verify_evidence(evidence).failed:
        if finding.check in OF_LEDGER:
            raise PrivacyError(f"{place}: {finding.detail}; its boards are not signed")
    return evidence.boards[0].parent


for _command in (page, fetch):
    board.add_command(_command)
