"""What logs and witnesses show: proofs, checkpoints, entries, keys, policies, requests."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleets.fuzz.specimens import boards, folder
from fleets.fuzz.trials import Parser

from fedboard.common.boards.log.checkpoints import Checkpoint, cosigned_at
from fedboard.common.boards.log.entries import BoardEntry
from fedboard.common.boards.log.history import History, HistoryError
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note, NoteError, VerifierKey
from fedboard.common.boards.log.policy import Witness, WitnessPolicy, most_of
from fedboard.common.boards.log.proofs import LogProof
from fedboard.common.boards.log.requests import AddCheckpoint
from fedboard.server.publishing.log.witness.http import _BadRequestError, _parsed
from fedboard.server.publishing.log.witness.witness import Witness as WitnessServer

_KEY = Ed25519PrivateKey.generate()
_DIGEST = "ab" * 32


def log_parsers() -> list[Parser]:
    """Of readers, and of witnesses."""
    log = NoteKey.generate("boards.example/films", Kind.NOTE)
    keys = [NoteKey.generate(f"w.example/{number}", Kind.COSIGNATURE) for number in range(3)]
    history = History()
    for board in boards():
        entry = BoardEntry.of(
            board.digest.encode(),
            run="films",
            version=board.version,
            board=board.digest,
            certificate=board.certificate,
        )
        history = history.with_entry(entry)
    text = Checkpoint(log.public.name, len(history.entries), history.root(len(history.entries))).text
    note = Note(text, (log.sign(text), *(key.cosign(text) for key in keys)))
    proof = LogProof.of(history, 1, note)
    witnesses = tuple(Witness(f"w{n}", key.public, f"http://w{n}.example") for n, key in enumerate(keys))
    policy = most_of(log.public, witnesses, least=2)
    server = WitnessServer(keys[0], [log.public], folder() / "witness")

    def request(content: bytes) -> object:
        return server.add_checkpoint(content).status

    def proven(content: bytes) -> object:
        read = LogProof.from_bytes(content)
        read.require_sound()
        for board in boards():
            read.history.require_ledger(board.version, board.certificate)
        return policy.suffices(read.note), read.history.index_of(_DIGEST)

    def checkpoint(content: bytes) -> object:
        """Signed again, by a log that lies."""
        read = Note.from_bytes(content)
        again = Note(read.text, (log.sign(read.text), *read.signatures[1:]))
        return policy.suffices(again), [cosigned_at(read, key.public) for key in keys]

    def keyed(content: bytes) -> object:
        given = content.decode(errors="surrogateescape")
        if given.startswith("PRIVATE"):
            return NoteKey.parse(given, kind=Kind.NOTE).public.id
        return str(VerifierKey.parse(given, kind=Kind.NOTE))

    def stated(content: bytes) -> object:
        return WitnessPolicy.parse(content.decode(errors="surrogateescape")).sentence

    def head(content: bytes) -> object:
        return _parsed(content)

    asked = AddCheckpoint(0, (), note)
    log_refusals = (NoteError, HistoryError)
    return [
        Parser(
            name="witness/request", read=request, refusals=(), specimens=(asked.to_bytes(),), form="lines"
        ),
        Parser(
            name="witness/http-head",
            read=head,
            refusals=(_BadRequestError,),
            specimens=(b"POST /add-checkpoint HTTP/1.1\r\nHost: w.example\r\nContent-Length: 12\r\n\r\n",),
            form="lines",
        ),
        Parser(
            name="reader/log-proof",
            read=proven,
            refusals=log_refusals,
            specimens=(proof.to_bytes(),),
            form="lines",
        ),
        Parser(
            name="reader/checkpoint",
            read=checkpoint,
            refusals=log_refusals,
            specimens=(note.to_bytes(),),
            form="lines",
        ),
        Parser(
            name="reader/log-entries",
            read=lambda content: History.parse(content.decode(errors="surrogateescape")).text,
            refusals=log_refusals,
            specimens=(history.text.encode(),),
            form="lines",
        ),
        Parser(
            name="reader/note-key",
            read=keyed,
            refusals=(NoteError,),
            specimens=(f"{log.text}\n".encode(), f"{log.public}\n".encode()),
            form="lines",
        ),
        Parser(
            name="reader/witness-policy",
            read=stated,
            refusals=(NoteError,),
            specimens=(policy.text.encode(),),
            form="lines",
        ),
    ]
