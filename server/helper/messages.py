"""What leader and helper say to each other: three questions and their replies, as frames."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import ResidueArray
from fedboard.common.errors import InputError
from fedboard.common.protocols.two_server.helper import HelperPart, RoundKey
from fedboard.common.protocols.two_server.rules import TwoServerRules
from fedboard.common.wire.frame import Frame, pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError

SERVICE: Final = "fedboard.Helper"
BEGIN: Final = "Begin"
TAKE: Final = "Take"
TOTAL: Final = "Total"
MOST_BYTES: Final = (1 << 31) - 1
"""Of one message: gRPC's own limit."""
_REFUSED, _KEY, _TAKEN, _SHARE = "refused", "key", "taken", "share"
_KEY_PARTS: Final = ("key", "identity", "signature")


class _Begin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parameters: dict[str, Any]


class _Take(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    client: str


class _Total(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Refused(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str


def begin_message(about: bytes, rules: TwoServerRules, board: bytes) -> bytes:
    """Ask for the key of a round."""
    return pack_frame(
        BEGIN, {"parameters": dict(rules.parameters)}, {"about": _bytes(about), "board": _bytes(board)}
    )


def read_begin(content: bytes) -> tuple[bytes, TwoServerRules, bytes]:
    """About, the protocol's rules and the board.

    Raises:
        RefusedError: not such a message, or not parameters of the protocol.
    """
    frame = unpack_frame(content, kinds=(BEGIN,), limit=MOST_BYTES)
    arrays = _exactly(frame, {"about": 1, "board": 1})
    try:
        rules = TwoServerRules.from_parameters(frame.read(_Begin).parameters)
    except InputError:
        raise RefusedError(Refusal.BAD_PROTOCOL) from None
    return arrays["about"].tobytes(), rules, arrays["board"].tobytes()


def take_message(about: bytes, client: str, part: HelperPart) -> bytes:
    """Hand over one client's part."""
    arrays = {"about": _bytes(about), "keys": part.keys, "sealed": _bytes(part.sealed)}
    return pack_frame(TAKE, {"client": client}, arrays)


def read_take(content: bytes) -> tuple[bytes, str, HelperPart]:
    """About, client and part.

    Raises:
        RefusedError: not such a message.
    """
    frame = unpack_frame(content, kinds=(TAKE,), limit=MOST_BYTES)
    arrays = _exactly(frame, {"about": 1, "keys": 2, "sealed": 1})
    part = HelperPart(keys=arrays["keys"], sealed=arrays["sealed"].tobytes())
    return arrays["about"].tobytes(), frame.read(_Take).client, part


def total_message(about: bytes, clients: tuple[str, ...]) -> bytes:
    """Ask for the total over these clients, who are as many as a message holds and not a header."""
    named = json.dumps(list(clients)).encode()
    return pack_frame(TOTAL, {}, {"about": _bytes(about), "clients": _bytes(named)})


def read_total(content: bytes) -> tuple[bytes, tuple[str, ...]]:
    """About and clients.

    Raises:
        RefusedError: not such a message.
    """
    frame = unpack_frame(content, kinds=(TOTAL,), limit=MOST_BYTES)
    frame.read(_Total)
    arrays = _exactly(frame, {"about": 1, "clients": 1})
    try:
        clients = msgspec.json.decode(arrays["clients"].tobytes(), type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError(Refusal.MALFORMED) from None
    return arrays["about"].tobytes(), clients


def key_reply(key: RoundKey) -> bytes:
    """The key of a round."""
    return pack_frame(_KEY, {}, {name: _bytes(getattr(key, name)) for name in _KEY_PARTS})


def taken_reply() -> bytes:
    """A part counts."""
    return pack_frame(_TAKEN, {}, {})


def share_reply(share: ResidueArray) -> bytes:
    """The helper's total."""
    return pack_frame(_SHARE, {}, {"share": share})


def refused_reply(code: Refusal) -> bytes:
    """No."""
    return pack_frame(_REFUSED, {"code": code.value}, {})


def read_key(content: bytes) -> RoundKey:
    """The key in a reply.

    Raises:
        RefusedError: with the helper's code, or not such a reply.
    """
    arrays = _exactly(_reply(content, _KEY), dict.fromkeys(_KEY_PARTS, 1))
    return RoundKey(**{name: arrays[name].tobytes() for name in _KEY_PARTS})


def read_taken(content: bytes) -> None:
    """Whether a part counts.

    Raises:
        RefusedError: it does not, or not such a reply.
    """
    _exactly(_reply(content, _TAKEN), {})


def read_share(content: bytes) -> ResidueArray:
    """The total in a reply.

    Raises:
        RefusedError: with the helper's code, or not such a reply.
    """
    arrays = _reply(content, _SHARE).arrays
    if set(arrays) != {"share"} or arrays["share"].dtype != np.uint32 or arrays["share"].ndim != 1:
        raise RefusedError(Refusal.MALFORMED)
    return arrays["share"]


def _reply(content: bytes, kind: str) -> Frame:
    frame = unpack_frame(content, kinds=(kind, _REFUSED), limit=MOST_BYTES)
    if frame.kind == _REFUSED:
        try:
            code = Refusal(frame.read(_Refused).code)
        except ValueError:
            code = Refusal.MALFORMED
        raise RefusedError(code)
    return frame


def _exactly(frame: Frame, dimensions: Mapping[str, int]) -> Mapping[str, NDArray[np.uint8]]:
    found = {name: array.ndim for name, array in frame.arrays.items() if array.dtype == np.uint8}
    if found != dict(dimensions) or set(frame.arrays) != set(dimensions):
        raise RefusedError(Refusal.MALFORMED)
    return frame.arrays


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)
