"""Where the page's boards come from: a run's folder or a board file, unsigned, or a mirror, verified."""

import tempfile
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from fedboard.client.boards.cache import SEEN, BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.open_board import board_file, open_board
from fedboard.client.boards.seen import Trust
from fedboard.client.boards.sources import BoardSource, open_source
from fedboard.client.page.contents import HeldBoard
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import LATEST, file_name
from fedboard.common.boards.manifest import Link, back_from
from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import is_address

MOST_EARLIER = 16
"""How many manifests before the newest one the page carries, renewals included."""
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
) -> HeldBoard:
    """The newest board at a place.

    Args:
        place: a run directory or board file, or as for ``open_source``.
        key: who signs, and who must have cosigned; needed for a mirror.
        authority: as for ``open_source``.
        fetch: whether the page fetches it from a web server by itself.

    Raises:
        InputError: no such board, a mirror without a key, witnesses without a mirror, or a board to fetch that is
            not on a web server.
        FeedRefusedError: the mirror's board is not one that the key signed, or not as it was signed; or too few
            witnesses have cosigned it.
    """
    if fetch and not place.startswith(_WEB):
        raise InputError(
            f"{place}: a page can fetch its board from a web server alone; give https://..., or leave out --fetch"
        )
    if not is_mirror(place):
        if key is not None and key.witnesses is not None:
            raise InputError(f"{place}: --witness goes with boards of a mirror, which witnesses can cosign")
        path = board_file(Path(place))
        return HeldBoard(board=open_board(path), label=_label(Path(place)), file=path.read_bytes())
    if key is None:
        raise InputError(
            f"{place}: boards of a mirror are signed; give --key, the public key that signs them"
        )
    with closing(open_source(place, authority=authority)) as source:
        return _of_source(place, source, key, fetch=fetch)


def _of_source(place: str, source: BoardSource, key: PinnedKey, *, fetch: bool) -> HeldBoard:
    with tempfile.TemporaryDirectory(prefix="fedboard-page-") as folder:
        keys = Trust(key).follow(source)
        cache = BoardCache(Path(folder))
        fetched = BoardFeed(source, key, cache, simulation=True).fetch()
        newest = Link.of(SignedManifest.from_bytes((cache.folder / SEEN).read_bytes()))
        earlier = [*islice(back_from(newest, source.manifest), MOST_EARLIER)]
        open_board(fetched.path)  # refuses one that has learnt nothing yet
        content = fetched.path.read_bytes()
    board = Board.from_bytes(np.frombuffer(content, dtype=np.uint8))  # the file is gone
    manifest = newest.manifest
    return HeldBoard(
        board=board,
        label=manifest.run,
        file=content,
        signed=newest.signed,
        earlier=tuple(link.signed for link in earlier),
        signers=keys,
        address=f"{place.rstrip('/')}/{file_name(manifest.file.sha256)}" if fetch else None,
        published=manifest.published,
    )


def _label(place: Path) -> str:
    """The run's name: that of its folder, also where a board of it is named."""
    folder = place if place.is_dir() else place.resolve().parent
    return folder.resolve().parent.name if folder.name == "boards" else folder.resolve().name
