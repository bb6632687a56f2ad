"""The round loop's end of the line to the door."""

import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from fedboard.server.fleet.line.messages import (
    LENGTH_BYTES,
    REPLY,
    Answered,
    Ask,
    End,
    Fetch,
    LineError,
    Present,
    Reply,
    Said,
    framed,
    length_of,
)

_SECONDS = 30.0
_TOGETHER_BYTES = 1 << 26
"""Of the answers that one look brings, unless a single one is larger."""


class Line:
    """One connection to the door, made anew where it broke. What fails raises ``LineError``."""

    def __init__(self, place: Path) -> None:
        """Nothing is connected yet.

        Args:
            place: file that tells where the door's socket is.
        """
        self._place = place
        self._socket: socket.socket | None = None

    def present(self) -> list[str]:
        """Public keys of the devices that are there."""
        return self._said(Present()).present

    def asking(self) -> "Asking":
        """A question, or a step, of its own."""
        return Asking(self)

    def say(self, said: Said) -> Reply:
        """Say something; what the door replies.

        Raises:
            LineError: the line is down.
        """
        return self._said(said)

    def close(self) -> None:
        """Until it is used again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _said(self, said: Said) -> Reply:
        try:
            if self._socket is None:
                self._socket = self._connected()
            self._socket.sendall(framed(said))
            length = length_of(self._read(LENGTH_BYTES))
            return REPLY.decode(self._read(length))
        except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
            self.close()
            raise LineError("the door is away") from error

    def _connected(self) -> socket.socket:
        place = self._place.read_text(encoding="utf-8")
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(_SECONDS)
        try:
            found.connect(place)
        except OSError:
            found.close()
            raise
        return found

    def _read(self, length: int) -> bytes:
        assert self._socket is not None
        found = bytearray(length)
        view, taken = memoryview(found), 0
        while taken < length:
            if not (n_bytes := self._socket.recv_into(view[taken:])):
                raise LineError("the door has gone")
            taken += n_bytes
        return bytes(found)


class Asking:
    """One question, or one step, to devices that come to the door."""

    def __init__(self, line: Line) -> None:
        """Nobody is asked yet."""
        self._line, self._name = line, secrets.token_hex(16)
        self._after, self._epoch, self._lost = 0, "", False

    def ask(
        self, frames: Mapping[str, bytes], *, beside: bytes | None, kind: str, largest: int, seconds: float
    ) -> None:
        """Have devices asked.

        Args:
            frames: by public key; equal ones travel once.
            beside: the board, where it travels beside them.
            kind: of the message.
            largest: most bytes of an answer.
            seconds: how long it is worth anything.

        Raises:
            LineError: nobody was asked.
        """
        numbers = {frame: number for number, frame in enumerate(dict.fromkeys(frames.values()))}
        self._heard(
            self._line.say(
                Ask(
                    asking=self._name,
                    kind=kind,
                    frames=list(numbers),
                    beside=beside or b"",
                    to={key: numbers[frame] for key, frame in frames.items()},
                    after=self._after,
                    largest=largest,
                    seconds=seconds,
                )
            )
        )

    def lost(self) -> bool:
        """Whether the door has started again since the last call: whoever was asked before then does not know."""
        found, self._lost = self._lost, False
        return found

    def answers(self) -> list[Answered]:
        """What has come since the last call, or the first part of it.

        Raises:
            LineError: the line is down; what has come is told with the next call.
        """
        found = self._line.say(Fetch(asking=self._name, after=self._after, most_bytes=_TOGETHER_BYTES))
        self._heard(found)
        if found.answers:
            self._after = found.answers[-1].number
        return found.answers

    def end(self) -> None:
        """Nobody is asked any more; where the door is away it finds out with the next question."""
        with suppress(LineError):
            self._line.say(End())

    def _heard(self, reply: Reply) -> None:
        if self._epoch and reply.epoch != self._epoch:
            self._after, self._lost = 0, True
        self._epoch = reply.epoch
