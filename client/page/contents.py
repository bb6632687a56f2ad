"""What the page holds of a board: its file, what was signed about it, and the two directions of the map."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fedboard.client.page.own_script import known_tasks
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.manifest import Link
from fedboard.common.boards.packing import pack
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import rebuild_task

_MAP_SIDES = 2
_MAP_DIGITS = 6


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
    address: str | None = None
    """Where the page fetches the file from; None: it is in the page."""
    published: str | None = None
    """When it was signed."""
    signers: PinnedKey | None = None
    """Who may sign and who must cosign, after the roots that its source has; None: as was pinned."""

    @property
    def epsilon(self) -> float:
        """As its certificate claims it; infinite where it has none."""
        claim = (self.board.certificate or {}).get("claim", {})
        return float(claim.get("epsilon", math.inf))

    def entry(self) -> dict[str, Any]:
        """As the page reads it, JSON-able; ``file`` is bytes, to be written as base64."""
        return {
            "label": self.label,
            "size": len(self.file),
            "file": pack(self.file) if self.address is None else None,
            "address": self.address,
            "signed": None if self.signed is None else msgspec.to_builtins(self.signed),
            "earlier": [{"content": signed.content} for signed in self.earlier],
            "oldest": self._oldest(),
            "projection": directions(self.board),
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


def require_alike(boards: list[HeldBoard]) -> None:
    """Refuse boards that one list of ratings cannot be held against.

    Raises:
        InputError: another catalogue, or another range of ratings.
    """
    first = boards[0]
    for other in boards[1:]:
        if other.board.catalogue.item_ids != first.board.catalogue.item_ids:
            raise InputError(
                f"{other.label}: this board has another catalogue than {first.label}; compare boards of one "
                "set of items"
            )
        if _range(other.board) != _range(first.board):
            raise InputError(f"{other.label}: this board has another range of ratings than {first.label}")


def directions(board: Board) -> Mapping[str, list[Any]]:
    """The two directions along which the items that are learnt differ most, and their centre. Post-processing.

    Args:
        board: with ``item_factors``. Public.

    Returns:
        ``basis``, two rows of rank numbers with norm 1, and ``centre``, rank numbers.
    """
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    learnt = factors[np.asarray(board.arrays.get("learnt", np.ones(len(factors)))) != 0]
    centre = learnt.mean(axis=0) if len(learnt) else np.zeros(factors.shape[1])
    spread = (learnt - centre).T @ (learnt - centre)
    vectors: FloatArray = np.linalg.eigh(spread)[1].T[::-1][:_MAP_SIDES]
    signs = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
    basis = np.zeros((_MAP_SIDES, factors.shape[1]))
    basis[: len(vectors)] = vectors * signs[:, None]
    return {"basis": basis.round(_MAP_DIGITS).tolist(), "centre": centre.round(_MAP_DIGITS).tolist()}


def _range(board: Board) -> tuple[Any, ...]:
    return tuple(board.config.get(name) for name in ("feedback", "rating_low", "rating_high"))


def pins_of(boards: Sequence[HeldBoard], key: PinnedKey | None) -> dict[str, Any]:
    """What the page pins: whose signatures and cosignatures count.

    Args:
        boards: of one page.
        key: as it was pinned.

    Returns:
        ``keys``, none where nothing is signed, of which ``threshold`` must have signed; ``witnesses``, of whom
        ``cosignatures`` must have cosigned.

    Raises:
        InputError: they are of mirrors with different roots.
    """
    signers = next((held.signers for held in boards if held.signers), key)
    if any(held.signers and signers and _pinned(held.signers) != _pinned(signers) for held in boards):
        raise InputError(
            "these mirrors have different root documents, so that other keys may sign; publish the newest roots "
            "into all of them, or write a page for each"
        )
    if signers is None:
        return {"keys": [], "threshold": 1, "witnesses": [], "cosignatures": 0}
    return _pinned(signers)


def _pinned(signers: PinnedKey) -> dict[str, Any]:
    witnesses = signers.witnesses
    return {
        "keys": [key.hex() for key in signers.keys],
        "threshold": signers.threshold,
        "witnesses": [] if witnesses is None else [key.hex() for key in witnesses.keys],
        "cosignatures": 0 if witnesses is None else witnesses.least,
    }
