"""Logs of boards that a reader with witnesses meets: what everybody sees, and what was made up for one of them."""

import base64
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cases import Case as BoardCase
from cases import OneBoard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from making import KEY, boards, forms_of, plain, signed

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.retrying import Patience
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.entries import BoardEntry, written
from fedboard.common.boards.log.merkle import inclusion_proof, root_of
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note, VerifierKey, text_of
from fedboard.common.boards.log.policy import Witness, most_of
from fedboard.common.boards.refusals import FeedRefusedError

ORIGIN, SECONDS = "vectors.example/boards", 1_767_323_045
_POSITION = "c2sp.org/tlog-proof@v1"


def note_key(name: str, kind: Kind) -> NoteKey:
    """A key that anybody can compute."""
    private = Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(f"fedboard vectors {name}".encode()).digest()
    )
    return NoteKey(VerifierKey(name, kind, private.public_key().public_bytes_raw()), private)


LOG = note_key(ORIGIN, Kind.NOTE)
WITNESSES = {name: note_key(f"{name}.example/w", Kind.COSIGNATURE) for name in ("ann", "ben", "cleo", "dora")}
POLICY = most_of(LOG.public, tuple(Witness(name, key.public) for name, key in WITNESSES.items()), least=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a mirror shows of its log beside one board, and what the reader saw before."""

    name: str
    board: Board
    proof: bytes | None
    seen: bytes | None = None


class WithLog(OneBoard):
    """A source with a log."""

    def __init__(self, case: Case) -> None:
        told, content = signed(case.board), forms_of(case.board)[0]["packed"]
        super().__init__(BoardCase(name=case.name, signed=told, file=content))
        self._proof = case.proof

    def log_proof(self) -> bytes:
        """As it is shown."""
        return self._proof or b""


def said(case: Case) -> str | None:
    """The code that the package refuses with; None where it takes the board."""
    with tempfile.TemporaryDirectory() as folder:
        cache = BoardCache(Path(folder))
        if case.seen is not None:
            (cache.folder / LOG_PROOF).write_bytes(case.seen)
        source, once = WithLog(case), Patience(attempts=1)
        feed = BoardFeed(source, KEY.public, cache, witnesses=POLICY, patience=once)
        try:
            feed.fetch()
        except FeedRefusedError as error:
            return error.code.value
        return None


def entry_of(board: Board, told: SignedManifest | None = None) -> BoardEntry:
    """What is logged of a board."""
    content = (told or signed(board)).content.encode()
    return BoardEntry.of(
        content, run="vectors", version=board.version, board=board.digest, certificate=board.certificate
    )


def proof_of(
    entries: Sequence[BoardEntry],
    *,
    cosigned: Sequence[str] = ("ann", "ben", "cleo"),
    checkpoint: Callable[[Checkpoint], Checkpoint] = lambda plain: plain,
    log: NoteKey = LOG,
) -> bytes:
    """A log's proof of its newest entry, as anybody who has its key could write it."""
    leaves = [entry.leaf for entry in entries]
    stated = checkpoint(Checkpoint(ORIGIN, len(leaves), root_of(leaves)))
    lines = [
        log.sign(stated.text),
        *(WITNESSES[name].cosign(stated.text, seconds=SECONDS) for name in cosigned),
    ]
    place = len(leaves) - 1
    head = [_POSITION, f"extra {text_of(written(entries).encode())}", f"index {place}"]
    head += [text_of(one) for one in inclusion_proof(leaves, place)]
    return "".join(f"{line}\n" for line in (*head, "")).encode() + Note(stated.text, tuple(lines)).to_bytes()


def flipped(proof: bytes, line: str) -> bytes:
    """With a bit of the signature in a line changed, in base64's own form."""
    text = proof.decode()
    found = next(one for one in text.split("\n") if one.startswith(f"\N{EM DASH} {line}"))
    lead, _, content = found.rpartition(" ")
    raw = bytearray(base64.b64decode(content))
    raw[-1] ^= 1
    return text.replace(found, f"{lead} {text_of(bytes(raw))}").encode()


def _cases() -> Iterator[Case]:
    made = boards("residual")
    board, entries = made[-1], [entry_of(one) for one in made[1:]]
    whole, earlier = proof_of(entries), proof_of(entries[:-1])
    sound = Case(name="sound", board=board, proof=whole)
    yield sound
    yield replace(sound, name="sound, after an earlier log", seen=earlier)
    more = proof_of(entries, cosigned=("ann", "ben", "dora"))
    yield replace(sound, name="other witnesses that suffice", proof=more)
    stranger = Note.from_bytes(whole.partition(b"\n\n")[2])
    unknown = note_key("elena.example/w", Kind.COSIGNATURE).cosign(stranger.text, seconds=SECONDS)
    added = whole + f"{unknown.line}\n".encode()
    yield replace(sound, name="a line of somebody unknown", proof=added)
    yield replace(sound, name="too few witnesses", proof=proof_of(entries, cosigned=("ann", "ben")))
    twice = proof_of(entries, cosigned=("ann", "ann", "ben"))
    yield replace(sound, name="one witness twice", proof=twice)
    yield replace(sound, name="a bit of a cosignature", proof=flipped(whole, "cleo.example/w"))
    yield replace(sound, name="a bit of the log's signature", proof=flipped(whole, ORIGIN))
    yield replace(sound, name="another log's key", proof=proof_of(entries, log=note_key("other", Kind.NOTE)))
    renamed = proof_of(entries, checkpoint=lambda plain: replace(plain, origin="other.example/boards"))
    yield replace(sound, name="a checkpoint of another log", proof=renamed)
    rooted = proof_of(entries, checkpoint=lambda plain: replace(plain, root=bytes(32)))
    yield replace(sound, name="a root that is not that of the entries", proof=rooted)
    yield replace(sound, name="no proof", proof=b"hello\n")
    yield replace(sound, name="a board that was not logged", proof=earlier)
    again = replace(entries[-1], manifest="0" * 64)
    yield replace(sound, name="a manifest that was not logged", proof=proof_of([*entries[:-1], again]))
    renewed = proof_of([*entries, again])
    yield replace(sound, name="a manifest that was signed again since", proof=renewed)
    other = replace(entries[-1], board="0" * 64)
    yield replace(sound, name="another board in the log", proof=proof_of([*entries[:-1], other]))
    yield replace(sound, name="two boards for a version", proof=proof_of([*entries, other]))
    run = replace(entries[0], run="other")
    yield replace(sound, name="two runs in a log", proof=proof_of([run, *entries[1:]]))
    forked = proof_of([replace(entries[0], manifest="1" * 64), *entries[1:]])
    yield replace(sound, name="another log than before", seen=forked)
    yield replace(sound, name="a shorter log than before", seen=renewed)
    shorter = replace(entries[-1], ledger_rows=1)
    yield replace(sound, name="a ledger that became shorter", proof=proof_of([*entries[:-1], shorter]))
    changed = replace(entries[1], releases="0" * 64)
    rewritten = proof_of([entries[0], changed, *entries[2:]])
    yield replace(sound, name="an earlier ledger that was another", proof=rewritten)
    counted = replace(entries[-1], ledger_rows=entries[-1].ledger_rows + 1)
    yield replace(
        sound, name="another ledger than the certificate's", proof=proof_of([*entries[:-1], counted])
    )


def logs() -> dict[str, Any]:
    """All of them, each with what the package says of it."""
    found = list(_cases())
    board = found[0].board
    told = [
        {
            "name": case.name,
            "proof": None if case.proof is None else base64.b64encode(case.proof).decode(),
            "seen_proof": None if case.seen is None else base64.b64encode(case.seen).decode(),
            "refused": said(case),
        }
        for case in found
    ]
    content = base64.b64encode(forms_of(board)[0]["packed"]).decode()
    return {"policy": POLICY.text, "signed": plain(signed(board)), "packed": content, "cases": told}
