"""A device's calls to its server: fetch a question, hand in the answer, each signed, over one TLS channel; and what
it counts of them.

What comes is bounded before it is kept, and nothing of it is followed, unpacked or executed. A channel that failed
is closed, so that the pauses between two attempts are the device's own.
"""

import hashlib
import io
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from typing import Any, Final

import grpc

from fedboard.common.errors import FedboardError
from fedboard.common.messages.certificate_dates import OUT_OF_DATE
from fedboard.common.messages.devices import (
    CHUNK_BYTES,
    MAX_REPLY_BYTES,
    QUESTION_CHUNK_BYTES,
    DeviceKey,
    Method,
    sane_pause,
    seconds_for,
)
from fedboard.common.messages.devices_pb2 import AnswerChunk, AnswerReceipt, WorkPart, WorkRequest
from fedboard.common.messages.refusals import Refusal

_log = logging.getLogger(__name__)


class Trouble(StrEnum):
    """Why a node gets no work; the only words that are logged about it."""

    UNREACHABLE = "unreachable"
    """Nobody answers at the address, or somebody without a certificate of the authority."""
    EXPIRED = "certificate-expired"
    """The server's certificate has expired, or is not valid yet: of this machine's clock or of that one's."""
    NOT_ADMITTED = "not-admitted"
    """The key is not registered, or the clocks are minutes apart."""
    TAKEN = "taken"
    """Another process with this key has called since, or the clock of this machine went back."""
    ROUND_OVER = "round-over"
    """The server no longer waits for the answer."""
    REFUSED = "refused"
    """The server answers with an error, or with what is no answer."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a node did since it started."""

    asked: int = 0
    answered: int = 0
    """Replies that the server took, also refusals and failures."""
    refused: int = 0
    """Questions that the device answered with a code alone; see ``refuse``."""
    undelivered: int = 0
    """Replies that the server did not take."""
    codes: set[Refusal] = field(default_factory=set)
    """Why it refused."""
    sent: int = 0
    """Bytes of bodies, without headers and TLS."""
    received: int = 0

    @property
    def given(self) -> int:
        """Questions that got an answer of this device."""
        return self.asked - self.refused

    def refuse(self, code: Refusal) -> None:
        """Count a refusal; each code is logged once."""
        self.refused += 1
        if code not in self.codes:
            _log.warning("refused: %s; later ones are counted (`fedboard status`)", code.value)
            self.codes.add(code)


_SLACK_BYTES: Final = 1 << 16
_INSTALLED: Final = version("fedboard")
_LONGEST_NAME: Final = 64
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none: nothing is unpacked
    ("grpc.http2.bdp_probe", 0),  # or what is kept unread grows with what a server sends
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),  # any number, so a server that is gone is noticed
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # a call is signed for once
    ("grpc.use_local_subchannel_pool", 1),  # or another channel's failure would be this one's
)
_TROUBLES: Final = {
    grpc.StatusCode.UNAUTHENTICATED: Trouble.NOT_ADMITTED,
    grpc.StatusCode.ABORTED: Trouble.TAKEN,
    grpc.StatusCode.FAILED_PRECONDITION: Trouble.ROUND_OVER,
    grpc.StatusCode.DEADLINE_EXCEEDED: Trouble.UNREACHABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Trouble.UNREACHABLE,
    grpc.StatusCode.UNAVAILABLE: Trouble.UNREACHABLE,
    grpc.StatusCode.CANCELLED: Trouble.UNREACHABLE,
}


class CallError(FedboardError):
    """A call came to nothing."""

    def __init__(self, trouble: Trouble) -> None:
        """Keep why."""
        super().__init__(trouble.value)
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class Received:
    """What is to be answered."""

    work: str
    """Its name."""
    kind: str
    frame: bytes | None
    """None: it is larger than is taken, and was not read."""
    board: bytes | None
    """That came beside it."""


class ServerConnection:
    """One device's calls, one at a time. Each may raise ``CallError``."""

    def __init__(
        self,
        *,
        address: str,
        authority: str,
        key: DeviceKey,
        largest: int,
        tally: Tally | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make ready; nothing is sent yet.

        Args:
            address: ``host:port`` of the server.
            authority: PEM text of the certificate of whoever vouches for the server; nobody else may.
            key: the device's; its public half is known to the server.
            largest: most bytes of a question that is taken.
            tally: counts the bytes, if anybody does.
            clock: seconds since 1970 UTC.
        """
        self._address, self._key, self._largest = address, key, largest + _SLACK_BYTES
        self._credentials = grpc.ssl_channel_credentials(root_certificates=authority.encode("ascii"))
        self._channel: grpc.Channel | None = None
        self._tally, self._clock, self._micros = tally or Tally(), clock, 0
        self.pause = 0.0
        """Seconds after which the server asks the device to come again."""

    def receive(self) -> Received | None:
        """What there is to answer; None where there is nothing."""
        request = WorkRequest(version=_INSTALLED).SerializeToString()
        with self._failures():
            ask = self._open().unary_stream(Method.WORK.path, response_deserializer=WorkPart.FromString)
            metadata = self._signed(Method.WORK, hashlib.sha256(request).hexdigest())
            call = ask(request, timeout=seconds_for(self._largest), metadata=metadata)
            try:
                return self._read(call)
            finally:
                call.cancel()

    def _read(self, parts: Iterator[WorkPart]) -> Received | None:
        first = next(parts, None)
        if first is None or first.WhichOneof("part") != "head":
            raise CallError(Trouble.REFUSED)
        head = first.head
        self.pause = sane_pause(head.pause_seconds)
        if not head.work:
            if next(parts, None) is not None:
                raise CallError(Trouble.REFUSED)
            return None
        name = head.work
        if len(name) > _LONGEST_NAME or not name.isalnum() or head.frame_bytes > head.total_bytes:
            raise CallError(Trouble.REFUSED)
        if head.total_bytes > self._largest:
            return Received(name, head.kind, None, None)
        frame, board = io.BytesIO(), io.BytesIO()
        left, messages = head.total_bytes, head.total_bytes // QUESTION_CHUNK_BYTES + 2
        for part in parts:
            chunk = part.chunk
            left, messages = left - len(chunk), messages - 1
            if not chunk or left < 0 or messages < 0:
                raise CallError(Trouble.REFUSED)
            of_frame = head.frame_bytes - frame.tell()
            frame.write(chunk[:of_frame])
            board.write(chunk[of_frame:])
        if left:
            raise CallError(Trouble.UNREACHABLE)
        self._tally.received += head.total_bytes
        return Received(name, head.kind, frame.getvalue(), board.getvalue() or None)

    def send(self, work: str, reply: bytes) -> None:
        """Hand in the reply to a question.

        Args:
            work: name of the question.
            reply: what is said.
        """
        metadata = self._signed(Method.ANSWER, hashlib.sha256(reply).hexdigest(), work=work)
        with self._failures():
            hand_in = self._open().stream_unary(
                Method.ANSWER.path,
                request_serializer=AnswerChunk.SerializeToString,
                response_deserializer=AnswerReceipt.FromString,
            )
            hand_in(chunks(reply), timeout=seconds_for(len(reply)), metadata=metadata)
        self._tally.sent += len(reply)

    def close(self) -> None:
        """Until the next call."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _open(self) -> grpc.Channel:
        if self._channel is None:
            self._channel = grpc.secure_channel(self._address, self._credentials, options=_OPTIONS)
        return self._channel

    def _signed(self, method: Method, digest: str, **work: str) -> Any:
        self._micros = max(int(self._clock() * 1_000_000), self._micros + 1)
        return self._key.metadata(method, digest, micros=self._micros, **work)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Every failure as one of our own words; the server's are not looked at but for its certificate's dates."""
        try:
            yield
        except grpc.RpcError as error:
            self.close()
            raise CallError(trouble_of(error)) from error
        except BaseException:
            self.close()
            raise


def chunks(content: bytes) -> Iterator[AnswerChunk]:
    """An answer as it travels."""
    for start in range(0, len(content), CHUNK_BYTES):
        yield AnswerChunk(content=content[start : start + CHUNK_BYTES])


def trouble_of(error: grpc.RpcError) -> Trouble:
    """What a failed call is to a device."""
    code = error.code()
    said = (error.details() or "").lower()
    if code is grpc.StatusCode.UNAVAILABLE and any(sign in said for sign in OUT_OF_DATE):
        return Trouble.EXPIRED
    return _TROUBLES.get(code, Trouble.REFUSED)
