"""Where the page's boards come from: a run's folder or a board file, unsigned, or a mirror, verified."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.open_board import board_file, open_board
from fedboard.client.boards.sources import BoardSource, open_source
from fedboard.client.boards.trust import Trust
from fedboard.client.page.contents import HeldBoard
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import LATEST, LOG_PROOF, file_name
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.boards.manifest import Encoding, Manifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import is_address

MOST_EARLIER = 16
"""How many earlier boards' manifests the page carries."""
_WEB = ("http://", "https://")


def is_mirror(place: str) -> bool:
    """Whether signed boards are offered there: an address, or a mirror's folder."""
    path = Path(place)
    return "://" in place or (path / LATEST).is_file() or (is_address(place) and not path.exists())


def held_board(
    place: str,
    *,
    key: PinnedKey | None,
    authority: Path | None = None,
    fetch: bool = False,
    witnesses: WitnessPolicy | None = None,
) -> HeldBoard:
    """The newest board at a place.

    Args:
        place: a run directory or board file, or as for ``open_source``.
        key: who signs; needed for a mirror.
        authority: as for ``open_source``.
        fetch: whether the page fetches it from a web server by itself.
        witnesses: whose log must show the board of a mirror; None: nobody's.

    Raises:
        InputError: no such board, a mirror without a key, witnesses without a mirror, or a board to fetch that is
            not on a web server.
        FeedRefusedError: the mirror's board is not one that the key signed, or not as it was signed.
    """
    if fetch and not place.startswith(_WEB):
        raise InputError(
            f"{place}: a page can fetch its board from a web server alone; give https://..., or leave out --fetch"
        )
    if not is_mirror(place):
        if witnesses is not None:
            raise InputError(f"{place}: --witnesses goes with boards of a mirror, which have a log")
        path = board_file(Path(place))
        return HeldBoard(board=open_board(path), label=_label(Path(place)), file=path.read_bytes())
    if key is None:
        raise InputError(
            f"{place}: boards of a mirror are signed; give --key, the public key that signs them"
        )
    with closing(open_source(place, authority=authority)) as source:
        return _of_source(place, source, key, fetch=fetch, witnesses=witnesses)


def _of_source(
    place: str, source: BoardSource, key: PinnedKey, *, fetch: bool, witnesses: WitnessPolicy | None
) -> HeldBoard:
    with tempfile.TemporaryDirectory(prefix="fedboard-page-") as folder:
        keys = Trust(key).follow(source)
        cache = BoardCache(Path(folder))
        fetched = BoardFeed(source, key, cache, simulation=True, witnesses=witnesses).fetch()
        proof = None if witnesses is None else (cache.folder / LOG_PROOF).read_text(encoding="utf-8")
        open_board(fetched.path)  # refuses one that has learnt nothing yet
        content = fetched.path.read_bytes()
    board = Board.from_bytes(np.frombuffer(content, dtype=np.uint8))  # the file is gone
    manifest = fetched.manifest
    signed = source.manifest(manifest.version)
    if keys.open(signed) != manifest:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    file = manifest.file(Encoding.PACKED) or manifest.file(Encoding.EXACT)
    if fetch and file is None:
        raise InputError(f"{place}: this mirror offers no file of the board that a page can read")
    return HeldBoard(
        board=board,
        label=manifest.run,
        file=content,
        signed=signed,
        earlier=tuple(_earlier(source, manifest, keys)),
        signers=keys,
        proof=proof,
        address=f"{place.rstrip('/')}/{file_name(file.sha256)}" if fetch and file is not None else None,
        form=file.encoding if fetch and file is not None else Encoding.PACKED,
        published=manifest.published,
    )


def _earlier(source: BoardSource, newest: Manifest, key: PinnedKey) -> Iterator[SignedManifest]:
    """The signed manifests before the newest, as far as the source still has them.

    Raises:
        FeedRefusedError: one that the key did not sign, or that the next does not continue.
    """
    later = newest
    for version in range(newest.version - 1, max(newest.version - 1 - MOST_EARLIER, -1), -1):
        try:
            signed = source.manifest(version)
        except FeedRefusedError as error:
            if error.code is FeedCode.NOT_FOUND:
                continue
            raise
        found = key.open(signed)
        if found.version != version or found.run != newest.run:
            raise FeedRefusedError(FeedCode.WRONG_RUN)
        if later.version == version + 1 and later.previous_digest != found.board_digest:
            raise FeedRefusedError(FeedCode.BROKEN_CHAIN)
        later = found
        yield signed


def _label(place: Path) -> str:
    """The run's name: that of its folder, also where a board of it is named."""
    folder = place if place.is_dir() else place.resolve().parent
    return folder.resolve().parent.name if folder.name == "boards" else folder.resolve().name
