"""What strangers can send over the network: the parsers of a server's calls, and of a device that asks one.

A target is one parser. It gives a value, or raises what its documentation names. What is signed is signed again
after it was changed: the attacker has the key.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import DecodeError

from fedboard.client.participation.connection import CallError, ServerConnection
from fedboard.common.boards.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import Address
from fedboard.common.messages.devices import KEY, SIGNATURE, DeviceKey, Method, Signed
from fedboard.common.messages.devices_pb2 import AnswerChunk, JoinRequest, WorkHead, WorkPart, WorkRequest
from fedboard.common.messages.enrolment import (
    Candidate,
    Introduction,
    Invitation,
    JoinError,
    ask_to_join,
    digest_of_introduction,
)
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.messages.question import Answer, Question, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import Envelope, ReplyKey
from fedboard.common.messages.signing import QuestionKey
from fedboard.common.messages.step import StepMessage, reply_frame, reply_of
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.fleet.device_service import RefusedCallError, chunks_of, read_message
from fleets.specimens import N_ITEMS, N_USERS, boards, introduction, rows

_KEY, _QUESTIONS, _DEVICE, _IDENTITY = Ed25519PrivateKey.generate(), QuestionKey(), DeviceKey(), IdentityKey()
_REPLIES = ReplyKey()
_ABOUT, _DIGEST, _LIMIT = b"a question", "ab" * 32, 1 << 22
_NOW = 1_700_000_000.0


class Target(NamedTuple):
    """A parser, and what it reads."""

    read: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...]
    """What it may raise, as its documentation says."""
    specimens: tuple[bytes, ...]
    """Messages that it reads, as the product makes them."""
    form: str = ""
    """How the mutations find the JSON in a message, see ``mutations.py``."""
    share: float = 1.0
    """Of the messages, among all; less where one takes long."""


def port_targets() -> dict[str, Target]:
    """By name: who reads, and what."""
    return {**_calls(), **_joining(), **_questions(), **_answers()}


def in_pieces(*parts: bytes) -> bytes:
    """Several messages as one, each behind its length."""
    return b"".join(len(part).to_bytes(3, "little") + part for part in parts)


def pieces(content: bytes) -> Iterator[bytes]:
    """What ``in_pieces`` has put together, whatever became of it."""
    while content:
        length = int.from_bytes(content[:3], "little")
        yield content[3 : 3 + length]
        content = content[3 + length :]


class _Call:
    """A call that has sent some messages."""

    def __init__(self, messages: Iterator[bytes]) -> None:
        self._messages = messages

    async def read(self) -> Any:
        return next(self._messages, grpc.aio.EOF)


def _calls() -> dict[str, Target]:
    """Metadata and messages of devices' calls, and what a device is handed."""
    known = {_DEVICE.public.hex(): _DEVICE._key.public_key()}
    given = _DEVICE.metadata(Method.ANSWER, _DIGEST, micros=int(_NOW * 1e6), work="0f" * 16)
    lines = [(name, value.hex() if isinstance(value, bytes) else value) for name, value in given]

    def metadata(content: bytes) -> object:
        """With the signature that fits, where it is one's own."""
        try:
            found = [(str(name), str(value)) for name, value in json.loads(content)]
        except (ValueError, TypeError, RecursionError):
            return None
        fields = dict(found)
        if fields.get(KEY) == _DEVICE.public.hex():
            parts = (Method.ANSWER.value, *(fields.get(name, "") for name, _ in lines[1:4]))
            text = "\n".join(("fedboard-devices-1", *parts)).encode(errors="replace")
            fields[SIGNATURE] = _DEVICE.sign(text).hex()
        raw = [
            (name, bytes.fromhex(fields[SIGNATURE]) if name == SIGNATURE and _is_hex(fields[name]) else value)
            for name, value in found
        ]
        return Signed.read(Method.ANSWER, raw, known, now=_NOW)

    async def all_of(content: bytes) -> list[bytes]:
        return [chunk async for chunk in chunks_of(_Call(pieces(content)))]

    connection = ServerConnection(address="127.0.0.1:1", authority="", key=_DEVICE, largest=1 << 20)

    def handed(content: bytes) -> object:
        try:
            parts = [WorkPart.FromString(part) for part in pieces(content)]
        except DecodeError:  # gRPC itself ends the call
            return None
        return connection._read(iter(parts)), connection.pause

    head = WorkHead(work="00ff", kind="query.round", frame_bytes=5, total_bytes=10, pause_seconds=1.5)
    answer = [AnswerChunk(content=part).SerializeToString() for part in (b"a" * 65_536, b"end")]
    work = [
        part.SerializeToString()
        for part in (WorkPart(head=head), WorkPart(chunk=b"frame"), WorkPart(chunk=b"board"))
    ]
    alone = WorkPart(head=WorkHead(pause_seconds=3600.0)).SerializeToString()
    return {
        "server/call-metadata": Target(metadata, (), (json.dumps(lines).encode(),), "json"),
        "server/work-request": Target(
            lambda content: read_message(WorkRequest, content).version,
            (RefusedCallError,),
            (WorkRequest(version="1.2").SerializeToString(),),
        ),
        "server/answer-chunks": Target(
            lambda content: asyncio.run(all_of(content)),
            (RefusedCallError,),
            (in_pieces(*answer),),
            share=0.2,
        ),
        "device/work": Target(handed, (CallError,), (in_pieces(*work), in_pieces(alone))),
    }


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and set(text) <= set("0123456789abcdef")


def _joining() -> dict[str, Target]:
    own = introduction("-----BEGIN CERTIFICATE-----\n").to_bytes()
    digest = digest_of_introduction(own)
    secret = bytes(range(32))
    asked = ask_to_join(_DEVICE, _IDENTITY, secret=secret, introduction=digest, version="1")
    invitation = Invitation(address=Address("::1", 8443), introduction=digest, secret=secret)

    def candidate(content: bytes) -> object:
        """Signed again: both signatures are over the secret, the keys and what the server is."""
        try:
            request = JoinRequest.FromString(content)
        except DecodeError:
            return Candidate.read(content, introduction=digest)
        if request.key == _DEVICE.public and request.identity == _IDENTITY.public:
            again = ask_to_join(
                _DEVICE, _IDENTITY, secret=request.secret, introduction=digest, version=request.version
            )
            content = again.SerializeToString()
        return Candidate.read(content, introduction=digest)

    return {
        "server/join-request": Target(candidate, (JoinError,), (asked.SerializeToString(),)),
        "device/introduction": Target(
            lambda content: Introduction.open(content, digest=digest_of_introduction(content)),
            (InputError,),
            (own,),
            "json",
        ),
        "device/invitation": Target(
            lambda content: Invitation.parse_text(content.decode(errors="surrogateescape"), source="file"),
            (InputError,),
            (invitation.text.encode(),),
        ),
    }


def _questions() -> dict[str, Target]:
    """What a device is asked."""
    board = boards()[1]
    question = Question(
        run="films",
        protocol="trusted",
        form="factored",
        board=board,
        private_noise=True,
        reply_key=_REPLIES.public,
    )
    step = StepMessage(
        run="films",
        round=board.version,
        board_digest=board.digest,
        session=bytes(range(16)),
        number=2,
        protocol="secure-sum",
        parameters={"survivors": 3, "dropout": 0.3, "nested": {"b": [1, 2], "a": None}},
        private_noise=True,
        reply_key=_REPLIES.public,
        message=b"masks, please",
    )
    frames = (
        pack_frame("answer", {"of": 1}, {"a": board.arrays["learnt"]}),
        pack_frame("refusal", {"code": "expired"}, {}),
    )
    authority = RosterAuthority()
    keys = [IdentityKey().public for _ in range(4)]
    roster = authority.sign(keys, fleet="films", number=1, seconds=3600)

    def asked(content: bytes) -> object:
        signed = _QUESTIONS.sign(content, seconds=60.0)
        return Question.from_bytes(_QUESTIONS.public.open(signed)).board.digest

    def listed(content: bytes) -> object:
        """Signed again: by an authority that lies."""
        head, newline, line = content.partition(b"\n")
        if len(head) == len("fedboard-roster-1 ") + 128:
            head = f"fedboard-roster-1 {authority._key.sign(b'fedboard roster 1' + bytes(1) + line).hex()}".encode()
        return Roster.read(head + newline + line, authority=authority.public).keys

    refusals = (RefusedError,)
    return {
        "both/frame": Target(
            lambda content: unpack_frame(content, kinds=("answer", "refusal"), limit=_LIMIT),
            refusals,
            frames,
            "frame",
        ),
        "device/envelope": Target(
            lambda content: bytes(_QUESTIONS.public.open(content)),
            refusals,
            (_QUESTIONS.sign(step.to_bytes(), seconds=1e5),),
        ),
        "device/question": Target(asked, refusals, (question.content,), "frame"),
        "device/step": Target(
            lambda content: StepMessage.from_bytes(content).sealed_about,
            refusals,
            (step.to_bytes(),),
            "frame",
        ),
        "device/board-beside-step": Target(step.question, refusals, (board.to_bytes(),), "board"),
        "device/reply-key": Target(
            lambda content: Envelope.to(content, about=_ABOUT).seal(b"a reply"),
            refusals,
            (ReplyKey().public,),
            share=0.3,
        ),
        "device/roster": Target(listed, (InputError,), (roster.content,), "headed"),
    }


def _answers() -> dict[str, Target]:
    """What a server is sent."""
    contribution, _ = rows()
    answers = [
        Answer(
            run="films",
            round=0,
            board_digest=boards()[0].digest,
            n_users=N_USERS,
            first_row=0,
            rows=Trusted().encode(contribution, rows()[1]),
        ).to_bytes(n_items=N_ITEMS)
    ]

    def inside(content: bytes) -> object:
        again = Envelope.to(_REPLIES.public, about=_ABOUT).seal(content)
        try:
            return Answer.from_bytes(_REPLIES.open(again, about=_ABOUT), limit=_LIMIT)
        except RefusedError as error:
            if error.code is Refusal.EXPIRED:  # a code that was sent, and read
                return error.code
            raise

    sealed = Envelope.to(_REPLIES.public, about=_ABOUT).seal(answers[0])
    refusals = (RefusedError,)
    return {
        "server/answer": Target(inside, refusals, (*answers, refusal(Refusal.EXPIRED)), "frame"),
        "server/sealed-reply": Target(
            lambda content: _REPLIES.open(content, about=_ABOUT), refusals, (sealed,), share=0.5
        ),
        "server/step-reply": Target(
            lambda content: reply_of(content, limit=_LIMIT), refusals, (reply_frame(b"masked"),), "frame"
        ),
    }
