"""What a reader must not take: boards and manifests that somebody changed, each with the code of its refusal."""

import base64
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from making import (
    KEY,
    PRIVATE,
    WITNESS_KEYS,
    WITNESSES,
    boards,
    manifest_of,
    packed_file,
    plain,
    signed_chain,
    with_witnesses,
)

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.sources import Patience
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest, message_to_sign
from fedboard.common.boards.manifest import Cosignature, Manifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.validity import utc_seconds
from fedboard.common.boards.witnesses import cosigned
from fedboard.common.certificate import Certificate
from fedboard.common.certificate.record import statements_of
from fedboard.common.privacy.accounting.exact import epsilon_when_adaptive
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.members import PopulationTotal
from fedboard.common.protection import Protection

OTHER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"another key of fedboard test vectors").digest())
_CERTIFICATE = "bad-certificate"
"""What is said of a board whose certificate does not hold; a reader that only fetches does not look at that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What comes from a mirror, and what the reader knows and wants."""

    name: str
    signed: SignedManifest
    file: bytes
    seen: SignedManifest | None = None
    """The newest manifest that she verified before."""
    simulation: bool = False
    """Whether she takes simulations."""
    max_bytes: int = 1 << 20
    now: str | None = None
    """What time it is; None: it does not matter."""
    earlier: tuple[SignedManifest, ...] = ()
    """Manifests that the mirror has beside the newest."""
    witnessed: bool = False
    """Whether the reader has pinned the witnesses, 2 of 3."""


class OneBoard:
    """A source that has this manifest and this file."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def manifest(self, digest: str | None = None) -> SignedManifest:
        """The newest, or one of those beside it."""
        if digest is None:
            return self._case.signed
        for signed in self._case.earlier:
            if signed.digest == digest:
                return signed
        raise FeedRefusedError(FeedCode.NOT_FOUND)

    def read(self, manifest: Manifest, offset: int) -> Iterator[bytes]:
        """The rest of the file; one that ends early is at its end for good."""
        rest = self._case.file[offset:]
        if not rest:
            raise FeedRefusedError(FeedCode.WRONG_DIGEST)
        yield rest

    def root(self, version: int) -> bytes:
        """Nobody replaced the key."""
        raise FeedRefusedError(FeedCode.NOT_FOUND)

    def close(self) -> None:
        """Nothing to let go."""


def said(case: Case) -> str | None:
    """The code that the package refuses with; None where it takes the board and its certificate holds."""
    with tempfile.TemporaryDirectory() as folder:
        cache = BoardCache(Path(folder))
        if case.seen is not None:
            (cache.folder / "seen.json").write_bytes(case.seen.to_bytes())
        clock = time.time if case.now is None else lambda: utc_seconds(case.now or "")
        feed = BoardFeed(
            OneBoard(case),
            PinnedKey(KEY.public.root, witnesses=WITNESSES if case.witnessed else None),
            cache,
            simulation=case.simulation,
            max_bytes=case.max_bytes,
            patience=Patience(attempts=1),
            clock=clock,
        )
        try:
            board = Board.load(feed.fetch().path)
        except FeedRefusedError as error:
            assert not cache.boards(), f"{case.name}: refused, and kept"
            return error.code.value
        return None if Certificate.from_dict(dict(board.certificate or {})).holds else _CERTIFICATE


def by_hand(
    content: bytes, *, key: Ed25519PrivateKey = PRIVATE, message: bytes | None = None
) -> SignedManifest:
    """Signed by somebody who does not look at what it is."""
    signature = key.sign(message_to_sign(content) if message is None else message)
    return SignedManifest(content=content.decode(), signatures=(signature.hex(),))


def rewritten(told: SignedManifest, change: Callable[[dict[str, Any]], Any]) -> SignedManifest:
    """With something in it changed, and signed again."""
    content = json.loads(told.content)
    change(content)
    return by_hand(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def resigned(board: Board, **changes: Any) -> tuple[SignedManifest, bytes]:
    """Any board, signed by hand, with its packed file."""
    packed, file = packed_file(board.to_bytes())
    stated = {"protection": Protection.PRIVATE, **changes}
    return by_hand(manifest_of(board, file, **stated).to_bytes()), packed


def with_certificate(board: Board, change: Callable[[dict[str, Any]], Any], *, fits: bool = True) -> Board:
    """The same board whose certificate says something else; its digest made to fit."""
    plain_certificate = json.loads(json.dumps(board.certificate))
    change(plain_certificate)
    if fits:
        rest = {key: value for key, value in plain_certificate.items() if key != "digest"}
        plain_certificate["digest"] = digest(rest)
    return board.with_certificate(plain_certificate)


def flipped(content: bytes, place: int) -> bytes:
    """With one bit changed."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def _of_manifests(made: list[Board]) -> Iterator[Case]:
    board = made[-1]
    packed, file = packed_file(board.to_bytes())
    *_, before, told = signed_chain(made[1:])
    sound = Case(name="sound", signed=told, file=packed)
    yield sound
    yield replace(sound, name="sound, after an earlier board", seen=before)
    (own,) = told.signatures
    broken = f"{int(own[:2], 16) ^ 1:02x}{own[2:]}"
    for name, given in {
        "a bit of the signature": (broken,),
        "no signature": (),
        "a signature that is none": (own, "not hexadecimal"),
        "a signature after another": (broken, own),
    }.items():
        yield replace(sound, name=name, signed=msgspec.structs.replace(told, signatures=given))
    later = told.content.replace(f'"version":{board.version}', f'"version":{board.version + 1}')
    yield replace(
        sound,
        name="another version, not signed again",
        signed=msgspec.structs.replace(told, content=later),
    )
    content = told.content.encode()
    yield replace(sound, name="another key", signed=by_hand(content, key=OTHER))
    yield replace(
        sound, name="signed without the name of the format", signed=by_hand(content, message=content)
    )
    other = b"fedboard-manifest-3\0" + content
    yield replace(sound, name="signed as another format", signed=by_hand(content, message=other))
    named = rewritten(told, lambda plain: plain.update(format="fedboard-manifest-3"))
    yield replace(sound, name="a name of another format", signed=named)
    changes: Mapping[str, Callable[[dict[str, Any]], Any]] = {
        "an unknown member": lambda plain: plain.update(note="hello"),
        "a missing member": lambda plain: plain.pop("protection"),
        "a run without an id": lambda plain: plain.update(run_id=""),
        "a count of releases that is none": lambda plain: plain.update(releases=-1),
        "a member of another type": lambda plain: plain.update(version="4"),
        "a digest that is none": lambda plain: plain.update(board_digest="../../etc/passwd"),
        "a file of no bytes": lambda plain: plain["file"].update(size=0),
        "no expiry": lambda plain: plain.update(expires=None),
        "an expiry that is no time": lambda plain: plain.update(expires="2126-02-30T00:00:00Z"),
        "expired": lambda plain: plain.update(expires="2026-01-03T00:00:00Z"),
        "signed in the future": lambda plain: plain.update(signed="2125-01-01T00:00:00Z"),
    }
    for name, change in changes.items():
        yield replace(sound, name=name, signed=rewritten(told, change))
    short = rewritten(told, lambda plain: plain.update(expires="2026-01-03T00:00:00Z"))
    for name, now in {
        "expired for 299 seconds": "2026-01-03T00:04:59Z",
        "expired for 301 seconds": "2026-01-03T00:05:01Z",
        "signed in 299 seconds": "2026-01-02T02:59:06Z",
        "signed in 301 seconds": "2026-01-02T02:59:04Z",
    }.items():
        yield replace(sound, name=name, signed=short, now=now)
    seen = by_hand(manifest_of(board, file, run="other").to_bytes())
    yield replace(sound, name="another run than before", seen=seen)
    newer = by_hand(manifest_of(board, file, version=board.version + 2).to_bytes())
    yield replace(sound, name="an older board than before", seen=newer)
    renewed = by_hand(manifest_of(board, file, renewal=2).to_bytes())
    yield replace(sound, name="an older signature than before", seen=renewed)
    yield replace(sound, name="a newer signature than before", signed=renewed, seen=told)
    other = by_hand(manifest_of(board, file, board_digest="0" * 64).to_bytes())
    yield replace(sound, name="another board of the same version", seen=other)
    forked = by_hand(
        manifest_of(made[-2], packed_file(made[-2].to_bytes())[1], board_digest="0" * 64).to_bytes()
    )
    yield replace(sound, name="a board that does not continue the one before", seen=forked)


def _of_chains(made: list[Board]) -> Iterator[Case]:
    """What is between the manifest that was seen and the newest one, and what they say of run and ledger."""
    packed, _ = packed_file(made[-1].to_bytes())
    *_, first, between, newest = signed_chain(made[1:])
    sound = Case(name="", signed=newest, file=packed, seen=first)
    yield replace(sound, name="after a board long ago, with all between", earlier=(between,))
    yield replace(sound, name="after a board long ago, with a gap")
    yield replace(sound, name="seen again", seen=newest)

    def linked(told: SignedManifest, **changes: Any) -> SignedManifest:
        return rewritten(told, lambda plain: plain.update(changes))

    def over(name: str, middle: SignedManifest) -> Case:
        end = linked(newest, previous_manifest=middle.digest)
        return replace(sound, name=name, signed=end, earlier=(middle,))

    renewal = linked(between, renewal=1, previous_manifest=between.digest)
    yield over("a renewal between", renewal)
    both = replace(over("", renewal), earlier=(between, renewal))
    yield replace(both, name="a renewal and what it renews between")
    yield over("a chain in which what was seen never was", linked(between, previous_manifest=None))
    yield over("another board between", linked(between, previous_digest="0" * 64))
    yield over(
        "another board between, which the newest does not continue", linked(between, board_digest="0" * 64)
    )
    yield over("more releases between than at the end", linked(between, releases=10**6))
    yield over("a manifest between that is out of order", linked(between, renewal=1))
    yield over("another run between", linked(between, run="other"))
    yield replace(sound, name="another ledger under the same name", signed=linked(newest, run_id="0" * 32))
    yield replace(sound, name="fewer releases than before", signed=linked(newest, releases=1))
    for name, changes in {
        "another number of releases than the certificate has": {"releases": 99},
        "another ledger's head than the certificate has": {"ledger_head": "0" * 64},
        "no ledger's head": {"ledger_head": None},
    }.items():
        yield Case(name=name, signed=linked(newest, **changes), file=packed)


def _of_witnesses(made: list[Board]) -> Iterator[Case]:
    board = made[-1]
    *_, before, told = signed_chain(made[1:])
    sound = Case(name="", signed=told, file=packed_file(board.to_bytes())[0], witnessed=True)
    two = with_witnesses(told, 0, 2)
    own, second = two.cosignatures
    bit = msgspec.structs.replace(own, signature=flipped_digits(own.signature))
    stranger = cosigned(OTHER, told.content.encode())
    renamed = msgspec.structs.replace(stranger, key=second.key)
    content = told.content.encode()
    plainly = tuple(
        Cosignature(key=key.public_key().public_bytes_raw().hex(), signature=key.sign(message).hex())
        for key, message in zip(WITNESS_KEYS, (content, message_to_sign(content), content), strict=True)
    )
    for name, given in {
        "cosigned by two witnesses of three": two.cosignatures,
        "cosigned by all three": with_witnesses(told, 0, 1, 2).cosignatures,
        "cosigned by one witness": (own,),
        "cosigned by nobody": (),
        "cosigned by one witness, twice": (own, own),
        "a bit of a cosignature": (bit, second),
        "a bit of a cosignature, and the same one whole": (bit, own, second),
        "a cosignature of another key": (own, stranger),
        "a cosignature of another key under a witness's name": (own, renamed),
        "cosignatures without the name of their format": plainly,
        "cosignatures of another manifest": with_witnesses(before, 0, 1, 2).cosignatures,
        "a cosignature that is none": (own, msgspec.structs.replace(second, signature="not hexadecimal")),
        "cosignatures behind 32 of a stranger": (*[stranger] * 32, own, second),
    }.items():
        yield replace(sound, name=name, signed=msgspec.structs.replace(told, cosignatures=given))
    yield replace(sound, name="cosigned by witnesses whom nobody pinned", signed=two, witnessed=False)


def flipped_digits(digits: str) -> str:
    """With one bit changed."""
    return f"{int(digits[0], 16) ^ 1:x}{digits[1:]}"


def _of_files(made: list[Board]) -> Iterator[Case]:
    board = made[-1]
    exact, told = board.to_bytes(), signed_chain(made[1:])[-1]
    packed, _ = packed_file(exact)
    sound = Case(name="", signed=told, file=packed)
    yield replace(sound, name="a bit of the file", file=flipped(packed, len(packed) // 2))
    yield replace(sound, name="a byte less", file=packed[:-1])
    yield replace(sound, name="a byte more", file=packed + b"\0")
    yield replace(sound, name="more bytes than she takes", max_bytes=len(exact) - 1)
    torn = packed[:-9] + bytes(9)
    yield replace(sound, name="a torn stream, signed", file=torn, signed=_file(board, torn))
    yield replace(
        sound,
        name="another magic, signed",
        file=(other := b"\x1f\x8c" + packed[2:]),
        signed=_file(board, other),
    )
    wrong = {"board_sha256": "0" * 64}
    yield replace(sound, name="no board, signed", **_no_board(board))
    yield replace(sound, name="another board file than signed", signed=_file(board, packed, **wrong))
    grown = {"board_size": len(exact) + 64}
    yield replace(sound, name="another size than signed", signed=_file(board, packed, **grown))
    shrunk = {"board_size": len(exact) - 64}
    yield replace(sound, name="a larger board than signed", signed=_file(board, packed, **shrunk))
    twice = packed + packed
    yield replace(sound, name="two streams, signed", file=twice, signed=_file(board, twice))
    swapped, other_file = packed_file(made[-2].to_bytes())
    told = by_hand(manifest_of(board, other_file).to_bytes())
    yield replace(sound, name="the file of another board", file=swapped, signed=told)


def _of_certificates(made: list[Board], seeded: Board) -> Iterator[Case]:
    board = made[-1]
    told, file = resigned(seeded)
    yield Case(name="noise from a seed, stated as private", signed=told, file=file)
    told, file = resigned(seeded, protection=Protection.SIMULATION)
    simulation = Case(name="a simulation", signed=told, file=file)
    yield simulation
    yield replace(simulation, name="a simulation, wanted", simulation=True)
    changes: Mapping[str, Callable[[dict[str, Any]], Any]] = {
        "the certificate of another board": lambda plain: plain.update(board_digest="0" * 64),
        "a smaller claim": lambda plain: plain["claim"].update(epsilon=2.5),
        "less noise than stated": lambda plain: plain["releases"][0].update(noise_multiplier=0.5),
        "a release that was not planned": lambda plain: plain["releases"][0].update(name="extra"),
        "another mu": lambda plain: plain["composition"].update(mu=plain["composition"]["mu"] * 1.001),
        "another point of the curve": lambda plain: plain["curve"][2].update(
            epsilon=plain["curve"][2]["epsilon"] * 0.99
        ),
        "a rating for less": lambda plain: plain["implied"].update(rating_epsilon=5.0),
        "rounds that do not add up": lambda plain: plain["rounds"].update(lost=2),
        "the square of mu": lambda plain: plain["composition"].update(mu=plain["composition"]["mu"] ** 2),
        "a planned release twice": lambda plain: plain["releases"].append(plain["releases"][0]),
        "no release": lambda plain: plain.update(releases=[], noise="no release yet", private=False),
    }
    for name, change in changes.items():
        told, file = resigned(with_certificate(board, change))
        yield Case(name=name, signed=told, file=file)
    told, file = resigned(with_certificate(board, lambda plain: plain.update(dataset="other"), fits=False))
    yield Case(name="a digest that does not fit", signed=told, file=file)
    for name, share in {
        "an account that counts what its releases cost": 1.0,
        "an account that counts less": 0.999,
    }.items():
        told, file = resigned(_with_account(board, share))
        yield Case(name=name, signed=told, file=file)
    told, file = resigned(board.with_certificate({}), certificate_digest=None)
    yield Case(name="a certificate that is none", signed=told, file=file)


def _with_account(board: Board, share: float) -> Board:
    """The same board; its certificate has an account of its population that counts this share of its releases."""
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    counted = share * epsilon_when_adaptive(certificate.releases, certificate.claim.delta)
    total = PopulationTotal(
        population="12" * 16,
        head="ef" * 32,
        delta=certificate.claim.delta,
        adjacency=certificate.claim.adjacency,
        budget=9.0,
        spent=counted,
        committed=counted,
        runs=1,
        releases=len(certificate.releases),
        private=True,
        lineage="34" * 16,
        lineage_spent=counted,
        lineage_budget=None,
    )
    told = replace(certificate, population=total)
    told = replace(told, statements=statements_of(told))
    return with_certificate(board, lambda plain: plain.update(json.loads(told.to_json())))


def _file(board: Board, content: bytes, **changes: Any) -> SignedManifest:
    """A manifest that names these bytes as the board's packed file."""
    stated = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changes}
    file = msgspec.structs.replace(packed_file(board.to_bytes())[1], **stated)
    return by_hand(manifest_of(board, file).to_bytes())


def _no_board(board: Board) -> dict[str, Any]:
    """Bytes whose header ends too early, signed as the board's own file."""
    packed, file = packed_file(board.to_bytes()[:200])
    return {"file": packed, "signed": by_hand(manifest_of(board, file).to_bytes())}


def cases() -> dict[str, Any]:
    """All of them, each with what the package says of it, and the files that they name."""
    made, seeded = boards("residual"), boards("simulation")[-1]
    found = [*_of_manifests(made), *_of_chains(made), *_of_witnesses(made), *_of_files(made)]
    found += _of_certificates(made, seeded)
    files = list(dict.fromkeys(case.file for case in found))
    told = [
        {
            "name": case.name,
            "signed": plain(case.signed),
            "file": files.index(case.file),
            "seen": None if case.seen is None else plain(case.seen),
            "simulation": case.simulation,
            "max_bytes": case.max_bytes,
            "now": case.now,
            "earlier": list(map(plain, case.earlier)),
            "witnessed": case.witnessed,
            "refused": said(case),
        }
        for case in found
    ]
    witnesses = {"keys": [key.hex() for key in WITNESSES.keys], "cosignatures": WITNESSES.threshold}
    return {
        "witnesses": witnesses,
        "cases": told,
        "files": [base64.b64encode(file).decode() for file in files],
    }
