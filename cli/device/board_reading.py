"""``fedboard board fetch`` and ``verify``: boards as a reader has them."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from fedboard.cli.device.board_text import record_of, tell, verdict
from fedboard.cli.device.ratings import DEVICE
from fedboard.cli.device.witnesses import witness_options
from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.style.documents import JSON, document
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses

_PATH = click.Path(path_type=Path)
_LARGEST = 1 << 30
_PUBLIC_KEY = click.option(
    "--key",
    type=_PATH,
    required=True,
    help="The public key that signs the boards (boards.pub), or the root that names it (1.root.json).",
)
_AUTHORITY = click.option(
    "--authority", type=_PATH, help="Certificate authority to trust for TLS, PEM.  [default: the system's]"
)
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
    from fedboard.client.boards.cache import BoardCache
    from fedboard.client.boards.feed import BoardFeed
    from fedboard.client.boards.sources import open_source
    from fedboard.common.boards.board_signature import PinnedKey

    if follow and version is not None:
        raise InputError("--follow waits for new boards; leave --version out")
    reader = _reader(source, key, cache, authority, device)
    pinned = PinnedKey.read(reader.key, witnesses=witnesses or reader.witnesses)
    with closing(open_source(reader.source, authority=reader.authority)) as opened:
        feed = BoardFeed(
            opened,
            pinned,
            BoardCache(reader.cache),
            run=run,
            max_bytes=max_bytes,
            simulation=simulation or reader.simulation,
        )
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
    from fedboard.client.boards.cache import BoardCache
    from fedboard.client.boards.feed import BoardFeed
    from fedboard.client.boards.sources import open_source
    from fedboard.client.device.config import load_device
    from fedboard.common.boards.board_signature import PinnedKey

    config = load_device(device)
    known = config.board.source is not None and config.board.public_key is not None
    if not known or any(config.board.cache.glob("board-*.board")):
        return
    reader = _reader(None, None, None, None, device)
    pinned = PinnedKey.read(reader.key, witnesses=reader.witnesses)
    with closing(open_source(reader.source, authority=reader.authority)) as opened:
        BoardFeed(opened, pinned, BoardCache(reader.cache), simulation=reader.simulation).fetch()


@click.command(epilog="Example: fedboard board verify mirror --key boards.pub")
@click.argument("source")
@_PUBLIC_KEY
@witness_options
@_AUTHORITY
@_MAX_BYTES
@click.option("--simulation", is_flag=True, help="Accept boards of seeded noise: 0 where all else passed.")
@click.option("--all", "with_passed", is_flag=True, help="Also list what passed.")
@JSON
def verify(
    source: str,
    key: Path,
    witnesses: "Witnesses | None",
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
    from fedboard.common.boards.board_signature import PinnedKey
    from fedboard.common.protection import Protection

    pinned = PinnedKey.read(key, witnesses=witnesses)
    with closing(open_source(source, authority=authority)) as opened:
        findings = list(check_source(opened, pinned, max_bytes=max_bytes))
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
    witnesses: "Witnesses | None" = None
    """Who must have cosigned, by the device's own policy."""


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
        raise InputError(f"give SOURCE and --key, or source and public_key in [boards] of {device}")
    return _Reader(
        place,
        public_key,
        cache or configured.cache,
        authority or config.authority(place),
        config.policy.seeded_noise,
        config.witnesses,
    )
