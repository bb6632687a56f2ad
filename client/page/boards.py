"""The page's boards: where they come from (a run's folder or a board file, unsigned, or a mirror, verified), and
what the page holds of each.
"""

import re
import tempfile
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.client.boards.cache import BoardCache, board_file, open_board
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.sources import BoardSource, open_source
from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import LATEST, SEEN, pack
from fedboard.common.boards.manifest import Link, back_from
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import is_address


def script_folder() -> Traversable:
    """Where the modules are."""
    return files(__package__).joinpath("script")


def known_tasks() -> tuple[str, ...]:
    """The tasks whose own models the page knows, as its registry lists them."""
    registry = script_folder().joinpath("models", "registry.js").read_text(encoding="utf-8")
    listed = registry.partition("export const MODELS = {")[2].partition("}")[0]
    return tuple(re.findall(r'^ {2}"?([\w-]+)"?: \w+,$', listed, re.MULTILINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBoard:
    """A board for the page, with what was signed about it. Everything is public."""

    board: Board
    label: str
    """The run's name, or the file's."""
    file: bytes
    """The board file."""
    signed: SignedManifest | None = None
    """None: nobody signed it."""
    earlier: tuple[SignedManifest, ...] = ()
    """The manifests before it in the chain, newest first."""
    published: str | None = None
    """When it was signed."""
    signers: PinnedKey | None = None
    """Who may sign and who must cosign, after the roots that its source has; None: as was pinned."""

    def entry(self) -> dict[str, Any]:
        """As the page reads it, JSON-able; ``file`` is bytes, to be written as base64."""
        return {
            "size": len(self.file),
            "file": pack(self.file),
            "signed": None if self.signed is None else msgspec.to_builtins(self.signed),
            "earlier": [{"content": signed.content} for signed in self.earlier],
            "oldest": self._oldest(),
        }

    def _oldest(self) -> dict[str, Any] | None:
        """The run and the place in it before which the page takes no manifest; None where nothing is signed."""
        if self.signed is None:
            return None
        manifest = Link.of(self.signed).manifest
        return {name: getattr(manifest, name) for name in ("run_id", "version", "renewal")}


def require_shown(held: HeldBoard) -> None:
    """Refuse a board that the page could not show.

    Raises:
        InputError: an own model that the page does not know, a configuration that this version does not know, or
            vectors of items that are not there or not finite.
    """
    board = held.board
    if board.task not in known_tasks():
        raise InputError(
            f"{held.label}: the page does not know the own model of boards that the task {board.task!r} made; it "
            f"knows those of {', '.join(known_tasks())}. `fedboard recommend` computes with any that is installed"
        )
    rebuild_task(board)
    vectors = board.arrays.get("item_factors")
    if vectors is None or vectors.ndim != 2 or not np.all(np.isfinite(vectors)):
        raise InputError(f"{held.label}: this board has no vectors of items that can be used; fetch it again")


def pins_of(held: HeldBoard, key: PinnedKey | None) -> dict[str, Any]:
    """What the page pins: whose signatures and cosignatures count.

    Args:
        held: of the page.
        key: as it was pinned.

    Returns:
        ``keys``, none where nothing is signed, of which ``threshold`` must have signed; ``witnesses``, of whom
        ``cosignatures`` must have cosigned.
    """
    signers = held.signers or key
    if signers is None:
        return {"keys": [], "threshold": 1, "witnesses": [], "cosignatures": 0}
    witnesses = signers.witnesses
    return {
        "keys": [key.hex() for key in signers.keys],
        "threshold": signers.threshold,
        "witnesses": [] if witnesses is None else [key.hex() for key in witnesses.keys],
        "cosignatures": 0 if witnesses is None else witnesses.threshold,
    }


MOST_EARLIER = 16
"""How many manifests before the newest one the page carries, renewals included."""


def is_mirror(place: str) -> bool:
    """Whether signed boards are offered there: an address, or a mirror's folder."""
    path = Path(place)
    return "://" in place or (path / LATEST).is_file() or (is_address(place) and not path.exists())


def held_board(
    place: str,
    *,
    key: PinnedKey | None,
    authority: Path | None = None,
) -> HeldBoard:
    """The newest board at a place.

    Args:
        place: a run directory or board file, or as for ``open_source``.
        key: who signs, and who must have cosigned; needed for a mirror.
        authority: as for ``open_source``.

    Raises:
        InputError: no such board, a mirror without a key, or witnesses without a mirror.
        FeedRefusedError: the mirror's board is not one that the key signed, or not as it was signed; or too few
            witnesses have cosigned it.
    """
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
        return _of_source(source, key)


def _of_source(source: BoardSource, key: PinnedKey) -> HeldBoard:
    with tempfile.TemporaryDirectory(prefix="fedboard-page-") as folder:
        cache = BoardCache(Path(folder))
        feed = BoardFeed(source, key, cache, simulation=True)
        fetched = feed.fetch()
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
        signers=feed.trust.keys,
        published=manifest.published,
    )


def _label(place: Path) -> str:
    """The run's name: that of its folder, also where a board of it is named."""
    folder = place if place.is_dir() else place.resolve().parent
    return folder.resolve().parent.name if folder.name == "boards" else folder.resolve().name
