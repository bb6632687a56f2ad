"""Made-up boards with certificates and manifests, as a server makes them: what the test vectors are about."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.board import Board, Catalogue
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import pack
from fedboard.common.boards.manifest import BoardFile, Manifest
from fedboard.common.boards.witnesses import Witnesses, cosigned
from fedboard.common.certificate import certify
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.item_features import CatalogueFeatures
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.ledger.ledger import Budget
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protection import protection_of_board
from fedboard.server.publishing.signing import CheckedBoard, SigningKey

RUN, PUBLISHED, EXPIRES = "vectors", "2026-01-02T03:04:05Z", "2126-01-02T03:04:05Z"
PRIVATE = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"fedboard test vectors").digest())
KEY = SigningKey(PRIVATE)
WITNESS_KEYS = tuple(
    Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(f"a witness of test vectors, {name}".encode()).digest()
    )
    for name in ("ann", "ben", "cleo")
)
WITNESSES = Witnesses(tuple(key.public_key().public_bytes_raw() for key in WITNESS_KEYS), 2)
RUN_ID = hashlib.sha256(b"the ledger of test vectors").hexdigest()[:32]
N_ITEMS, RANK = 40, 3
FEATURES = CatalogueFeatures(
    number_names=("year",),
    numbers=np.array([[1950 + 7 * n % 60 if n % 11 else np.nan] for n in range(N_ITEMS)], dtype=np.float32),
    label_names=("genres: é", "genres: b", "genres: c"),
    labels=np.array([[n % 3 == 0, n % 5 < 2, n % 7 == 1] for n in range(N_ITEMS)], dtype=np.uint8),
)
"""Made up: a year, which is unknown of some items, and three kinds."""
CATALOGUE = Catalogue(
    item_ids=tuple(f"f{number:02}" for number in range(N_ITEMS)),
    titles=tuple(f"Film {number}, é ☃" for number in range(N_ITEMS)),
)

CONFIGURATIONS = json.loads(Path(__file__).with_name("configurations.json").read_text(encoding="utf-8"))
"""Task and settings of each board, written down so that tuned defaults may change and these boards do not."""
SIMULATION = "simulation"
"""The one whose noise would follow from a seed."""


def boards(name: str) -> list[Board]:
    """All boards of a run whose rounds found made-up numbers, each with the certificate of what was booked.

    Args:
        name: one of ``CONFIGURATIONS``; items have features where it ends so.
    """
    config = CONFIGURATIONS[name]["config"]
    algorithm, feedback = CONFIGURATIONS[name]["task"], config["feedback"]
    noise: NoiseSource = SeededNoise(7) if name == SIMULATION else SecureNoise()
    catalogue = replace(CATALOGUE, features=FEATURES if name.endswith("features") else None)
    task = rebuild_task(Board(version=0, task=algorithm, config=config, arrays={}, catalogue=catalogue))
    made, booked = [task.first_board(catalogue)], []
    releases = [[request.release.event() for request in requests] for requests in task.plan()]
    commitment = Commitment.of(
        Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE),
        {event["name"]: event["noise_multiplier"] for events in releases for event in events},
    )
    for number, events in enumerate(releases, start=1):
        booked += [{**event, **noise.describe()} for event in events]
        board = made[-1].successor(**arrays_of(algorithm, feedback, number, last=number == len(releases)))
        certificate = certify(
            booked,
            commitment=commitment,
            trust=("Nobody is trusted with made-up numbers: 5 €.",),
            assumptions=(),
            dataset="a test vector: nobody's ratings, é ☃",
            board_digest=board.digest,
            ledger_head=hashlib.sha256(f"{len(booked)} rows".encode()).hexdigest(),
            rounds=RoundsMade(planned=len(releases), made=number, lost=0),
        )
        made.append(board.with_certificate(certificate.to_dict()))
    return made


def arrays_of(algorithm: str, feedback: str, number: int, *, last: bool) -> dict[str, Any]:
    """Made-up arrays of the board after a round; all that a device reads."""
    rng = np.random.default_rng([number, len(algorithm), len(feedback)])
    learnt = np.ones(N_ITEMS, dtype=np.uint8)
    learnt[[3, 17]] = 0
    arrays = {
        "learnt": learnt,
        "item_counts": rng.uniform(1.0, 90.0, N_ITEMS),
        "item_weights": rng.uniform(0.1, 1.0, N_ITEMS),
        "item_factors": rng.normal(0.0, 0.7, (N_ITEMS, RANK)).astype(np.float32),
    }
    if algorithm == "topk":
        arrays |= {"personal": np.ones(1, dtype=np.uint8), "population": np.array([400.0])}
        if last:
            arrays["item_scale"] = rng.uniform(0.5, 2.0, N_ITEMS)
            arrays["item_biases"] = rng.normal(0.0, 0.3, N_ITEMS).astype(np.float32)
        return arrays
    if feedback == "explicit":
        arrays["mean"] = np.array([3.1415])
    if algorithm == "residual":
        arrays["item_biases"] = np.zeros(N_ITEMS, dtype=np.float32)
        if feedback == "explicit":
            arrays["item_biases"] = rng.normal(0.0, 0.4, N_ITEMS).astype(np.float32)
            arrays |= {"spread": np.array([0.83]), "user_ridge": np.array([4.2])}
    return arrays


def manifest_of(board: Board, file: BoardFile, **changes: Any) -> Manifest:
    """What is signed of a board."""
    certificate = board.certificate or {}
    stated = {
        "run": RUN,
        "run_id": RUN_ID,
        "releases": len(certificate.get("releases", ())),
        "ledger_head": certificate.get("ledger_head"),
        "previous_manifest": None,
        "version": board.version,
        "board_digest": board.digest,
        "previous_digest": board.previous_digest,
        "certificate_digest": certificate.get("digest"),
        "protection": protection_of_board(board),
        "published": PUBLISHED,
        "signed": PUBLISHED,
        "expires": EXPIRES,
        "key_id": KEY.id,
        "file": file,
    }
    return Manifest(**{**stated, **changes})


def packed_file(board_file: bytes) -> tuple[bytes, BoardFile]:
    """A board file packed, and what the manifest says of it."""
    packed = pack(board_file)
    return packed, BoardFile(
        size=len(packed),
        sha256=hashlib.sha256(packed).hexdigest(),
        board_size=len(board_file),
        board_sha256=hashlib.sha256(board_file).hexdigest(),
    )


def signed_chain(made: Sequence[Board]) -> list[SignedManifest]:
    """The manifests of boards that continue each other, signed as a server does, each naming the one before it."""
    chain = list[SignedManifest]()
    for board in made:
        before = chain[-1].digest if chain else None
        manifest = manifest_of(board, packed_file(board.to_bytes())[1], previous_manifest=before)
        chain.append(KEY.sign(manifest, CheckedBoard(board=board, simulation=True)))
    return chain


def with_witnesses(told: SignedManifest, *who: int) -> SignedManifest:
    """The same, cosigned by some of the witnesses, by their places."""
    each = tuple(cosigned(WITNESS_KEYS[place], told.content.encode()) for place in who)
    return msgspec.structs.replace(told, cosignatures=each)


def plain(told: SignedManifest) -> dict[str, Any]:
    """As it travels."""
    read: dict[str, Any] = json.loads(told.to_bytes())
    return read
