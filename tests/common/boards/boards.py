"""Boards, keys and mirrors that the tests of the board service share."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig
from fedboard.common.board import Board, Catalogue
from fedboard.common.boards.board_signature import SignedManifest, message_to_sign
from fedboard.common.boards.ed25519_keys import write_pair
from fedboard.common.boards.layout import LATEST, MANIFESTS, manifest_name
from fedboard.common.boards.manifest import BoardFile, Link, Manifest
from fedboard.common.certificate import certify
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey
from tests.common.privacy.commitments import plan_of, planned
from tests.common.releases import a_release

RUN = "summer"
RUN_ID = "ab" * 16
N_ITEMS = 120
RANK = 4
SECRET = SecureNoise()
_RELEASE = a_release(name="round", rows=20, width=10, grid_step=2.0**-8, l2_bound=1000, noise_multiplier=5.0)


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
    )


def certified(board: Board, *, noise: Sequence[NoiseSource] = (SECRET,)) -> Board:
    """The same board with a certificate that holds: one release a round, with these sources of noise in turn."""
    releases = [
        {**replace(_RELEASE, name=f"round-{number}").event(), **noise[number % len(noise)].describe()}
        for number in range(board.version)
    ]
    certificate = certify(
        releases,
        commitment=planned(releases, epsilon=100.0),
        trust=("Nobody is trusted with made-up numbers.",),
        assumptions=(),
        dataset="made up",
        board_digest=board.digest,
    )
    return board.with_certificate(certificate.to_dict())


def chain(length: int = 3, *, noise: Sequence[NoiseSource] = (SECRET,), **size: int) -> list[Board]:
    """Boards that continue each other."""
    boards = [certified(first_board(**size), noise=noise)]
    while len(boards) < length:
        last = boards[-1]
        n_items, rank = last.arrays["item_factors"].shape
        learnt = factors(last.version + 1, n_items=n_items, rank=rank)
        boards.append(certified(last.successor(item_factors=learnt), noise=noise))
    return boards


def write_boards(folder: Path, boards: Sequence[Board]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for board in boards:
        board.save(folder / f"board-{board.version:04d}.board")
    return folder


def write_ledger(run: Path, board: Board) -> None:
    """The ledger of a run up to a board, in its folder; it takes the place of the one before."""
    releases, place = (board.certificate or {})["releases"], run / "ledger.sqlite"
    place.unlink(missing_ok=True)
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(place, budget, plan=plan_of(releases)) as ledger:
        ledger.book_all(releases)


def keys(folder: Path) -> tuple[Path, Path]:
    """A fresh key pair, private and public."""
    private, public = folder / "board-signing.key", folder / "board-signing.pub"
    write_pair(Ed25519PrivateKey.generate(), private=private, public=public)
    return private, public


def signed_mirror(
    folder: Path, boards: Sequence[Board], *, key: SigningKey, run: str = RUN, simulation: bool = False
) -> Mirror:
    """A mirror with these boards."""
    mirror = Mirror(folder / "mirror")
    written = write_boards(folder / "boards", boards)
    publish_into(mirror, written, key=key, run=run, simulation=simulation)
    return mirror


def signed_file(
    folder: Path, packed: bytes, *, key: SigningKey, board_file: bytes = b"none", version: int = 2
) -> Mirror:
    """A mirror with one file of any content, signed as if it were a board."""
    mirror, digest = Mirror(folder / "mirror"), hashlib.sha256(board_file).hexdigest()
    sha256 = hashlib.sha256(packed).hexdigest()
    file = BoardFile(size=len(packed), sha256=sha256, board_size=len(board_file), board_sha256=digest)
    manifest = Manifest(
        run=RUN,
        run_id=RUN_ID,
        releases=0,
        ledger_head=None,
        previous_manifest=None,
        version=version,
        board_digest=digest,
        previous_digest=None,
        certificate_digest=None,
        protection=Protection.PRIVATE,
        published="2026-01-01T00:00:00Z",
        signed="2026-01-01T00:00:00Z",
        expires="2126-01-01T00:00:00Z",
        key_id=key.id,
        file=file,
    )
    for place, bytes_ in ((mirror.file(sha256), packed), *_manifests(mirror, manifest, key)):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes_)
    return mirror


def of_version(mirror: Mirror, version: int) -> Link:
    """The newest manifest of a version."""
    return [link for link in mirror.chain() if link.manifest.version == version][-1]


def path_of(mirror: Mirror, version: int) -> Path:
    """Where the newest manifest of a version is."""
    return mirror.manifest(of_version(mirror, version).digest)


def write_manifest(mirror: Mirror, manifest: Manifest, *, key: SigningKey) -> None:
    """Sign anything, in its place of the chain, and point at it: what the holder of a key could do."""
    for link in mirror.chain():
        if link.manifest.place == manifest.place:
            mirror.manifest(link.digest).unlink()
    for place, content in _manifests(mirror, manifest, key):
        place.write_bytes(content)


def _manifests(mirror: Mirror, manifest: Manifest, key: SigningKey) -> list[tuple[Path, bytes]]:
    signed = signed_by_hand(manifest.to_bytes(), key=key)
    (mirror.folder / MANIFESTS).mkdir(parents=True, exist_ok=True)
    names = (manifest_name(signed.digest), LATEST)
    return [(mirror.folder / name, signed.to_bytes()) for name in names]


def signed_by_hand(content: bytes, *, key: SigningKey, domain: bytes | None = None) -> SignedManifest:
    """Any bytes under the key, past every check of the signer: what the holder of a key could do."""
    message = message_to_sign(content) if domain is None else domain + content
    return SignedManifest(content=content.decode(), signatures=(key._key.sign(message).hex(),))


def another(board: Board) -> Board:
    """A board of the same version with other factors: what a server that forks history would show."""
    changed = {**board.arrays, "item_factors": board.arrays["item_factors"] + np.float32(0.5)}
    return certified(replace(board, arrays=changed, _digest=[]))
