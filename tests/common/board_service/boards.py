"""Boards, keys and mirrors that the tests of the board service share."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedboard.common.board import Board, Catalogue
from fedboard.common.board_service.layout import LATEST, manifest_name
from fedboard.common.board_service.manifest import BoardFile, Encoding, Manifest
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig
from fedboard.common.tasks.adadpals.task import AdaDpals
from fedboard.server.board_service.mirror import Mirror, publish_into
from fedboard.server.board_service.signing import SigningKey, create_board_keys

RUN = "summer"
N_ITEMS = 120
RANK = 4


def factors(seed: int, *, n_items: int = N_ITEMS, rank: int = RANK) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n_items, rank)).astype(np.float32)


def first_board(*, version: int = 2, n_items: int = N_ITEMS, rank: int = RANK) -> Board:
    """A learnt board; counts stay the same from round to round, factors do not."""
    task = AdaDpals(AdaDpalsConfig(rank=rank, user_ridge=0.5))
    counts = np.random.default_rng(1).integers(1, 900, size=n_items).astype(np.float64)
    return Board(
        version=version,
        task=task.name,
        config=task.config,
        arrays={
            "item_factors": factors(version, n_items=n_items, rank=rank),
            "item_counts": counts + 0.123,
            "learnt": np.ones(n_items, dtype=np.uint8),
            "mean": np.array([3.5]),
        },
        catalogue=Catalogue(
            item_ids=tuple(str(item) for item in range(n_items)),
            titles=tuple(f"Title of item {item} (19{item % 100:02d})" for item in range(n_items)),
        ),
        certificate={"digest": "c" * 64, "board_digest": "of the exact board"},
    )


def chain(length: int = 3, **size: int) -> list[Board]:
    """Boards that continue each other."""
    boards = [first_board(**size)]
    while len(boards) < length:
        last = boards[-1]
        n_items, rank = last.arrays["item_factors"].shape
        learnt = factors(last.version + 1, n_items=n_items, rank=rank)
        boards.append(last.successor(item_factors=learnt).with_certificate(dict(last.certificate or {})))
    return boards


def write_boards(folder: Path, boards: Sequence[Board]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for board in boards:
        board.save(folder / f"board-{board.version:04d}.board")
    return folder


def keys(folder: Path) -> tuple[Path, Path]:
    """A fresh key pair, private and public."""
    return create_board_keys(folder)


def signed_mirror(folder: Path, boards: Sequence[Board], *, key: SigningKey, run: str = RUN) -> Mirror:
    """A mirror with these boards."""
    mirror = Mirror(folder / "mirror")
    publish_into(mirror, write_boards(folder / "boards", boards), key=key, run=run)
    return mirror


def signed_file(folder: Path, content: bytes, *, key: SigningKey, version: int = 2) -> Mirror:
    """A mirror with one file of any content, signed as if it were a board."""
    mirror, digest = Mirror(folder / "mirror"), hashlib.sha256(content).hexdigest()
    file = BoardFile(
        encoding=Encoding.EXACT,
        size=len(content),
        sha256=digest,
        board_size=len(content),
        board_sha256=digest,
        board_digest=digest,
    )
    manifest = Manifest(
        run=RUN,
        version=version,
        board_digest=digest,
        previous_digest=None,
        certificate_digest=None,
        published="2026-01-01T00:00:00Z",
        key_id=key.id,
        files=(file,),
    )
    for place, bytes_ in ((mirror.file(digest), content), *_manifests(mirror, manifest, key)):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes_)
    return mirror


def write_manifest(mirror: Mirror, manifest: Manifest, *, key: SigningKey) -> None:
    """Sign anything and point at it: what the holder of a key could do."""
    for place, content in _manifests(mirror, manifest, key):
        place.write_bytes(content)


def _manifests(mirror: Mirror, manifest: Manifest, key: SigningKey) -> list[tuple[Path, bytes]]:
    signed = key.sign(manifest).to_bytes()
    names = (manifest_name(manifest.version), LATEST)
    return [(mirror.folder / name, signed) for name in names]


def another(board: Board) -> Board:
    """A board of the same version with other factors: what a server that forks history would show."""
    changed = {**board.arrays, "item_factors": board.arrays["item_factors"] + np.float32(0.5)}
    return replace(board, arrays=changed, _digest=[])
