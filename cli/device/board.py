"""``fedboard board``: boards signed for readers, fetched as one, and written as a page."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.options import AUTHORITY, COSIGNATURES, DAYS, DEVICE, ROOTS, WITNESS, witnesses_of
from fedboard.cli.text import warned
from fedboard.common.errors import InputError, PrivacyError

if TYPE_CHECKING:
    from fedboard.client.boards.feed import BoardFeed, Fetched
    from fedboard.common.board import Board
    from fedboard.common.boards.witnesses import Witnesses


def _tell(fetched: "Fetched", seconds: float | None, *, as_json: bool) -> None:
    """Print what was fetched; ``seconds`` is how long it took, where that is known."""
    manifest = fetched.manifest
    private = manifest.protection.value == "private"
    record = {
        "run": manifest.run,
        "version": manifest.version,
        "board_digest": manifest.board_digest,
        "private": private,
        "noise": manifest.protection.value,
        "published": manifest.published,
        "received_bytes": fetched.received,
        "seconds": seconds,
        "path": str(fetched.path),
    }
    how = f"{fetched.received} bytes" if fetched.received else "here already"
    lines = [f"version {manifest.version} of {manifest.run}, published {manifest.published}: {how}"]
    lines += [] if private else [f"  {manifest.protection.verdict}"]
    answer(record, "\n".join([*lines, f"  {fetched.path}"]), as_json=as_json)


def mark(board: "Board") -> str:
    """The verdict on a board where it is not private, as the beginning of a text; empty for one that is."""
    from fedboard.common.protection import Protection, protection_of_board

    protection = protection_of_board(board)
    return "" if protection is Protection.PRIVATE else f"{warned(protection.verdict)}.\n\n"


def mark_record(board: "Board") -> dict[str, Any]:
    """The same as fields of a JSON object: ``private``, and in ``noise`` the kind."""
    from fedboard.common.protection import Protection, protection_of_board

    protection = protection_of_board(board)
    return {"private": protection is Protection.PRIVATE, "noise": protection.value}


@click.group(cls=Commands)
def board() -> None:
    """Publish boards to readers, and fetch and verify them as one."""


@command("fedboard board page runs/films --out films.html", group=board)
def page(
    source: str = argument("RUN|MIRROR"),
    out: Path = option("The HTML file to write.", required=True),
    key: Path | None = option("The public key that signs the boards of a mirror (boards.pub)."),
    authority: Path | None = AUTHORITY,
    witness: tuple[str, ...] = WITNESS,
    cosignatures: int | None = COSIGNATURES,
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
    witnesses = witnesses_of(witness, cosignatures)
    if key is None and witnesses is not None:
        raise InputError("--witness goes with --key, the public key that signs the boards of a mirror")
    pinned = None if key is None else PinnedKey.read(key, witnesses=witnesses)
    held = held_board(source, key=pinned, authority=authority)
    size = write_page(out, held, key=pinned)
    click.echo(f"{mark(held.board)}{out}: {size / 1000:.0f} kB, the board inside; open it in a browser")


@command("fedboard board fetch grpcs://boards.example.org:8445 --key boards.pub --to boards", group=board)
def fetch(
    source: str | None = argument(),
    key: Path | None = option("The public key that signs the boards, or a root (1.root.json)."),
    cache: Path | None = option("Folder of the reader's boards.", "--to"),
    device: Path = DEVICE,
    version: int | None = option("A version other than the newest.", type=click.IntRange(min=0)),
    run: str | None = option("The run to follow.  [default: the one that the folder follows]"),
    simulation: bool = option("Take boards of seeded noise too; every print says so."),
    authority: Path | None = AUTHORITY,
    witness: tuple[str, ...] = WITNESS,
    cosignatures: int | None = COSIGNATURES,
    max_bytes: int = option("Largest board taken.", type=click.IntRange(min=1), default=1 << 30, rare=True),
    follow: bool = option("Stay, and fetch each board as it is published."),
    as_json: bool = JSON,
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
    witnesses = witnesses_of(witness, cosignatures)
    with _feed(
        device, source, key, cache, authority, witnesses, simulation=simulation, run=run, max_bytes=max_bytes
    ) as feed:
        started = time.perf_counter()
        fetched = feed.fetch(version)
        _tell(fetched, time.perf_counter() - started, as_json=as_json)
        for newer in feed.follow() if follow else ():
            _tell(newer, None, as_json=as_json)


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
    with _feed(device) as feed:
        feed.fetch()


@contextmanager
def _feed(
    device: Path,
    source: str | None = None,
    key: Path | None = None,
    cache: Path | None = None,
    authority: Path | None = None,
    witnesses: "Witnesses | None" = None,
    *,
    simulation: bool = False,
    **how: Any,
) -> Iterator["BoardFeed"]:
    """The boards of a source; what is not given is as the device has it."""
    from fedboard.client.boards.cache import BoardCache
    from fedboard.client.boards.feed import BoardFeed
    from fedboard.client.boards.sources import open_source
    from fedboard.client.participation.config import load_device
    from fedboard.common.boards.board_signature import PinnedKey

    if source is None or key is None or cache is None:
        config = load_device(device)
        source, key = source or config.board.source, key or config.board.public_key
        if source is None or key is None:
            raise InputError(f"give SOURCE and --key, or source and public_key in [boards] of {device}")
        cache, authority = cache or config.board.cache, authority or config.authority(source)
        simulation, witnesses = simulation or config.policy.seeded_noise, witnesses or config.witnesses
    pinned = PinnedKey.read(key, witnesses=witnesses)
    with closing(open_source(source, authority=authority)) as opened:
        yield BoardFeed(opened, pinned, BoardCache(cache), simulation=simulation, **how)


@command("fedboard board export runs/films --to mirror --key boards.key", group=board)
def export(
    run_place: Path = argument("RUN"),
    mirror: Path = option("Folder of the mirror, made or continued.", "--to", required=True),
    keys: tuple[Path, ...] = option(
        "The private signing key (boards.key); several where the root asks for them.", "--key", required=True
    ),
    run: str | None = option("Public name of the run.  [default: the name of RUN's folder]"),
    roots: Path | None = ROOTS,
    days: float = DAYS,
    witness: tuple[str, ...] = WITNESS,
    cosignatures: int | None = COSIGNATURES,
    simulation: bool = option(
        "Sign boards of seeded noise too, which protects nobody, marked as simulations for every reader."
    ),
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
        witnesses=witnesses_of(witness, cosignatures) or place.witnesses,
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
