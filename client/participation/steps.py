"""How a client answers the steps of a session: each once, what it gives once for ever, else with a code. What it
remembers between them holds the session's secrets and is in memory only.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fedboard.client.participation.contributing import RatingSource, Work, made_from_rows
from fedboard.client.participation.rounds import Gate, asked_of, noted, respond, sealed_reply, unheard
from fedboard.common.contribution import Contribution, Request
from fedboard.common.messages.question import ROUND, STEP, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import Envelope
from fedboard.common.messages.step import StepMessage, reply_frame
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise
from fedboard.common.protocol import ClientSession, Given
from fedboard.common.task import ClientTask


class MemoryVault:
    """Room for one session's state, in the memory of a process. Whoever restarts has lost it, and drops out."""

    def __init__(self) -> None:
        """Nothing is kept."""
        self._content: bytes | None = None

    def load(self) -> bytes | None:
        """What was saved last; None for nothing."""
        return self._content

    def save(self, content: bytes) -> None:
        """Put it in the place of what was there."""
        self._content = content


class Remembered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A session after one of its steps. Private."""

    about: str
    """Which session: a hash of ``StepMessage.about``."""
    number: int
    """Of the last step that was answered."""
    asked: str
    """A hash of that step as it came."""
    reply: bytes
    """What was replied: the very same bytes answer the very same step again."""
    state: bytes
    """Of the protocol's session."""

    __repr__ = object.__repr__

    @classmethod
    def of(cls, vault: MemoryVault, step: StepMessage) -> "Remembered | None":
        """What is remembered of a step's session; None where it is not, or no longer, known."""
        content = vault.load()
        try:
            found = None if content is None else msgspec.msgpack.decode(content, type=cls)
        except msgspec.DecodeError:  # of another version of this package
            return None
        return found if found is not None and found.about == digest(step.about) else None


def digest(content: bytes) -> str:
    """SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()


NoiseOf = Callable[[StepMessage], NoiseSource]
"""Where a client's own noise of a round comes from."""


def secure_noise(step: StepMessage) -> NoiseSource:
    """What a device draws from, whatever a server states."""
    return SecureNoise()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What answers the steps of sessions."""

    source: RatingSource
    """The ratings. Private."""
    gate: Gate
    """Policy and record."""
    vault: MemoryVault
    """Keeps the session between two steps."""
    noise: NoiseOf = secure_noise
    backend: str = "numpy"
    """Which kernels compute."""
    heard: Callable[[Refusal], object] = unheard
    """Is told the code of each refusal, on the device itself."""

    def refused(self, code: Refusal) -> bytes:
        """What is sent in place of an answer; it is counted."""
        return noted(self.gate, code, self.heard)


def respond_to(kind: str, content: bytes, board: bytes | None, client: Client) -> bytes:
    """Answer whatever a server asks or tells: a round that is one question, what is booked, a step of a session.

    Guarantee: never raises; as of ``respond`` and ``respond_step``.

    Args:
        kind: of the message.
        content: signed, from a server that need not be honest.
        board: what came beside it.
        client: who answers.
    """
    if kind == ROUND and board is None:
        return respond(
            content, source=client.source, gate=client.gate, backend=client.backend, heard=client.heard
        )
    return respond_step(content, board, client) if kind == STEP else client.refused(Refusal.MALFORMED)


def is_asking(kind: str, board: bytes | None) -> bool:
    """Whether ``respond_to`` looks at the content of a message of this kind, with this beside it."""
    return kind == STEP or (kind == ROUND and board is None)


def respond_step(content: bytes, board: bytes | None, client: Client) -> bytes:
    """Answer one step.

    Guarantee: never raises. What it returns, sealed to the server's key, is the protocol's reply, or a refusal that
    is a code alone; whether it is refused never depends on the ratings. A contribution is booked by the gate before
    it is returned, which then refuses any other for this run, round and board, whatever the session. The same step
    gets the same reply again, as long as the policy allows it. Nothing of a step or of its board is read unless the
    server that the gate names has signed both.

    Args:
        content: the signed step, from a server that need not be honest.
        board: what came beside it, where it asks for a contribution.
        client: who answers.
    """
    try:
        step = StepMessage.from_bytes(client.gate.asker.content(content, board))
        envelope = Envelope.to(step.reply_key, about=step.sealed_about)
    except RefusedError as error:
        return client.refused(error.code)
    except Exception:
        return client.refused(Refusal.INTERNAL)
    asked = _digest_of(step, board)
    return sealed_reply(envelope, lambda: reply_frame(_reply(step, asked, board, client)), client.refused)


def _reply(step: StepMessage, asked: str, board: bytes | None, client: Client) -> bytes:
    protocol = client.gate.protocol_of(step, backend=client.backend)
    known = Remembered.of(client.vault, step)
    if known is not None and known.asked == asked:
        if board is not None:
            question, _, requests = _asked(step, board, client)
            client.gate.repeat(question, requests)
        return known.reply
    if known is None and step.number != 0:
        raise RefusedError(Refusal.NO_SESSION)
    if known is not None and step.number <= known.number:
        raise RefusedError(Refusal.DUPLICATE)
    if known is None:
        client.gate.welcome(step)
        state = protocol.join(step.about, client.noise(step)).to_bytes()
    else:
        state = known.state

    def resumed() -> ClientSession:
        return protocol.resume(step.about, client.noise(step), state)

    if board is None:
        session = resumed()
        reply = session.answer(step.message, None)
    else:
        session, reply = _contributed(step, board, client, resumed)
    remembered = Remembered(
        about=digest(step.about), number=step.number, asked=asked, reply=reply, state=session.to_bytes()
    )
    client.vault.save(msgspec.msgpack.encode(remembered))
    return reply


def _asked(
    step: StepMessage, board: bytes, client: Client
) -> tuple[Question, ClientTask, tuple[Request, ...]]:
    question = step.question(board)
    task, requests = asked_of(question, client.backend)
    client.gate.asker.require_affordable(requests)
    return question, task, requests


def _digest_of(step: StepMessage, board: bytes | None) -> str:
    """Of all that a step asks; that it was signed anew makes no other step of it."""
    hashed = hashlib.sha256(step.to_bytes())
    hashed.update(b"" if board is None else hashlib.sha256(board).digest())
    return hashed.hexdigest()


def _contributed(
    step: StepMessage, board: bytes, client: Client, resumed: Callable[[], ClientSession]
) -> tuple[ClientSession, bytes]:
    """The session after it has answered with what the ratings give, which is booked."""
    gate = client.gate
    question, task, requests = _asked(step, board, client)
    scale = gate.admit(question, question.board, requests)
    work = Work(task, question.board, requests)
    work.require_sound()

    def give(rows: Contribution) -> tuple[ClientSession, bytes]:
        session = resumed()  # as it was: one that has failed may be half way
        return session, session.answer(step.message, Given(contribution=rows, requests=requests))

    _, (session, reply) = made_from_rows(work, client.source, scale, give, gate.failed)
    gate.commit(question, requests, scale, None)
    return session, reply
