"""What servers and devices send each other outside of sessions: questions, answers, replies, joining."""

import hashlib
import os

import msgspec
from fleets.fuzz.specimens import N_ITEMS, N_USERS, boards, introduction, node, rows
from fleets.fuzz.trials import Parser

from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import load_private_key
from fedboard.common.keys.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.rounds.question import Answer, Question, refusal
from fedboard.common.rounds.step import StepMessage, reply_frame, reply_of
from fedboard.common.wire.addresses import Address
from fedboard.common.wire.enrolment import (
    Introduction,
    Invitation,
    JoinError,
    JoinRequest,
    digest_of_introduction,
)
from fedboard.common.wire.frame import pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.common.wire.sealing import Envelope, KeySuite, ReplyKey
from fedboard.common.wire.signing import QuestionKey

_KEY = QuestionKey()
_REPLIES = ReplyKey(KeySuite.X25519)
_LIMIT = 1 << 22


def wire_parsers() -> list[Parser]:
    """Of both sides."""
    return [*_of_devices(), *_of_servers(), *_of_joining()]


def _question() -> Question:
    return Question(
        run="films",
        protocol="trusted",
        form="factored",
        board=boards()[1],
        private_noise=True,
        reply_key=_REPLIES.public,
    )


def _step() -> StepMessage:
    return StepMessage(
        run="films",
        round=boards()[1].version,
        board_digest=boards()[1].digest,
        session=bytes(range(16)),
        number=2,
        protocol="secure-sum",
        parameters={"survivors": 3, "dropout": 0.3, "nested": {"b": [1, 2], "a": None}},
        private_noise=True,
        reply_key=_REPLIES.public,
        message=b"masks, please",
    )


def _of_devices() -> list[Parser]:
    step, board = _step(), boards()[1].to_bytes()
    frames = (
        pack_frame("answer", {"of": 1}, {"a": boards()[1].arrays["learnt"]}),
        pack_frame("refusal", {"code": "expired"}, {}),
    )

    def envelope(content: bytes) -> object:
        return bytes(_KEY.public.open(content))

    def question(content: bytes) -> object:
        signed = _KEY.sign(content, seconds=60.0)
        return Question.from_bytes(_KEY.public.open(signed)).board.digest

    def asked(content: bytes) -> object:
        read = StepMessage.from_bytes(content)
        return read.sealed_about

    def seal(content: bytes) -> object:
        return Envelope.to(content, about=b"a question").seal(b"a reply")

    kinds = ("answer", "refusal")
    return [
        Parser(
            name="both/frame",
            read=lambda content: unpack_frame(content, kinds=kinds, limit=_LIMIT),
            refusals=(RefusedError,),
            specimens=frames,
            form="frame",
        ),
        Parser(
            name="device/envelope",
            read=envelope,
            refusals=(RefusedError,),
            specimens=(_KEY.sign(step.to_bytes(), seconds=1e5),),
        ),
        Parser(
            name="device/question",
            read=question,
            refusals=(RefusedError,),
            specimens=(_question().content,),
            form="frame",
        ),
        Parser(
            name="device/step",
            read=asked,
            refusals=(RefusedError,),
            specimens=(step.to_bytes(),),
            form="frame",
        ),
        Parser(
            name="device/board-beside-step",
            read=step.question,
            refusals=(RefusedError,),
            specimens=(board,),
            form="board",
        ),
        Parser(
            name="device/reply-key",
            read=seal,
            refusals=(RefusedError,),
            specimens=tuple(ReplyKey(suite).public for suite in KeySuite),
            share=0.3,
        ),
        _roster(),
    ]


def _roster() -> Parser:
    authority = RosterAuthority()
    lists = [[IdentityKey().public for _ in range(many)] for many in (1, 4)]
    specimens = [
        authority.sign(keys, fleet="films", number=n + 1, seconds=3600) for n, keys in enumerate(lists)
    ]

    def read(content: bytes) -> object:
        """Signed again: by an authority that lies."""
        head, newline, line = content.partition(b"\n")
        signature = authority._key.sign(b"fedboard roster 1\0" + line).hex()
        if len(head) == len("fedboard-roster-1 ") + 128:
            head = f"fedboard-roster-1 {signature}".encode()
        return Roster.read(head + newline + line, authority=authority.public).keys

    return Parser(
        name="device/roster",
        read=read,
        refusals=(InputError,),
        specimens=tuple(roster.content for roster in specimens),
        form="headed",
    )


def _of_servers() -> list[Parser]:
    contribution, requests = rows()
    answers = []
    for form in ("factored", "dense"):
        message = Trusted(form=form).encode(contribution, requests)
        answer = Answer(
            run="films",
            round=0,
            board_digest=boards()[0].digest,
            n_users=N_USERS,
            first_row=0,
            message=message,
        )
        answers.append(answer.to_bytes(n_items=N_ITEMS))
    about = b"a question"
    sealed = Envelope.to(_REPLIES.public, about=about).seal(answers[0])

    def inside(content: bytes) -> object:
        again = Envelope.to(_REPLIES.public, about=about).seal(content)
        return Answer.from_bytes(_REPLIES.open(again, about=about), limit=_LIMIT)

    def answer_or_code(content: bytes) -> object:
        try:
            return inside(content)
        except RefusedError as error:
            if error.code is Refusal.EXPIRED:
                return error.code
            raise

    return [
        Parser(
            name="server/answer",
            read=answer_or_code,
            refusals=(RefusedError,),
            specimens=(*answers, refusal(Refusal.EXPIRED)),
            form="frame",
        ),
        Parser(
            name="server/sealed-reply",
            read=lambda content: _REPLIES.open(content, about=about),
            refusals=(RefusedError,),
            specimens=(sealed,),
            share=0.5,
        ),
        Parser(
            name="server/step-reply",
            read=lambda content: reply_of(content, limit=_LIMIT),
            refusals=(RefusedError,),
            specimens=(reply_frame(b"masked numbers"),),
            form="frame",
        ),
    ]


def _of_joining() -> list[Parser]:
    line = " ".join(node().with_suffix(".pub").read_text().split()[:2])
    own = introduction("-----BEGIN CERTIFICATE-----\n").to_bytes()
    digest = digest_of_introduction(own)
    request = JoinRequest.made(
        load_private_key(node()), line, IdentityKey(), secret=os.urandom(32), introduction=digest, version="1"
    )
    invitation = Invitation(address=Address("::1", 8443), introduction=digest, secret=os.urandom(32))

    def token(content: bytes) -> object:
        """With the check of its last bytes made to fit, where it is one."""
        return Invitation.parse_text(content.decode(errors="surrogateescape"), source="file").token

    return [
        Parser(
            name="device/introduction",
            read=lambda content: Introduction.open(content, digest=digest_of_introduction(content)),
            refusals=(InputError,),
            specimens=(own,),
            form="json",
        ),
        Parser(
            name="device/invitation",
            read=token,
            refusals=(InputError,),
            specimens=(invitation.text.encode(),),
            form="lines",
        ),
        Parser(
            name="server/join-request",
            read=lambda content: hashlib.sha256(JoinRequest.read(content).proven(introduction=digest)),
            refusals=(JoinError,),
            specimens=(msgspec.json.encode(request),),
            form="json",
            share=0.7,
        ),
    ]
