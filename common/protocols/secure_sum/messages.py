"""The messages of a secure sum: four or five steps, each with one message to a client and one back.

With k neighbours and a vector of n numbers, besides a header of about 250 bytes:

=========  ==========================================  =============================================
step       to a client                                 from it
=========  ==========================================  =============================================
keys       a number that no other session has          its keys and commitment: 96
shares     those of its neighbours: 96 k               a box for each neighbour: 50 k
masked     who is still there, their boxes: 51 k       its numbers, masked: 4 n
unmask     who stayed: k                               a share for each neighbour: 17 k
=========  ==========================================  =============================================

Where clients are vouched for there is a step ``confirm`` before the last one, and some messages hold more. With N
devices on the list, q of which must confirm:

=========  ==========================================  =============================================
step       to a client, besides                        from it, besides
=========  ==========================================  =============================================
keys       the list: 67 N                              its place and signature: 68
shares     who takes part: N / 8; 68 k                 nothing
confirm    who was masked with, who stayed: N / 4      its signature: 64
unmask     who confirmed, signatures: N / 8 + 64 q     nothing
=========  ==========================================  =============================================
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.boards.roster import SIGNATURE_BYTES
from fedboard.common.messages.frame import Frame, Shapes, pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.secure_sum.masking import BOX_BYTES, SHARE_BYTES
from fedboard.common.protocols.secure_sum.members import ADVERTISED_BYTES, VOUCHED_BYTES, bits_bytes
from fedboard.common.protocols.secure_sum.rules import MOST_CLIENTS

NONCE_BYTES = 16
_LARGEST_HEADER = 4096
_MOST_TO_A_CLIENT = 1 << 27


class MaskingStep(IntEnum):
    """The steps; ``STEPS`` and ``VOUCHED_STEPS`` say their order."""

    KEYS = 0
    SHARES = 1
    MASKED = 2
    UNMASK = 3
    CONFIRM = 4
    """Of sums among vouched clients only, before ``UNMASK``."""


STEPS = (MaskingStep.KEYS, MaskingStep.SHARES, MaskingStep.MASKED, MaskingStep.UNMASK)
"""The steps of a sum, in their order."""
VOUCHED_STEPS = (*STEPS[:3], MaskingStep.CONFIRM, MaskingStep.UNMASK)
"""The same, where clients are vouched for."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the shapes of messages follow from. Public."""

    size: int = 0
    """Neighbours of a client; 0 while nobody has any."""
    devices: int | None = None
    """On the list of those vouched for; None where nobody is."""
    numbers: int = 0
    """Of the masked vector."""

    @property
    def keys_bytes(self) -> int:
        """Of what a client advertises."""
        return ADVERTISED_BYTES if self.devices is None else VOUCHED_BYTES

    def sets(self, *names: str) -> Shapes:
        """Of sets of devices; there are none where nobody is vouched for."""
        if self.devices is None:
            return {}
        return {name: ("u1", (bits_bytes(self.devices),)) for name in names}


class Wanted(IntEnum):
    """Which share of a neighbour is asked for."""

    NOTHING = 0
    """It left before anything was masked with it."""
    MASK_SEED = 1
    """It dropped out: the masks it shares with others must be taken away."""
    SELF_SEED = 2
    """It stayed: its own mask must be taken away."""


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: str


class _FirstFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: str
    nonce: str


class _CountedFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: str
    clients: int


def session_of(about: bytes, nonce: bytes) -> bytes:
    """What every key and message of a session is bound to, 32 bytes.

    Args:
        about: run, round and board.
        nonce: 16 bytes that the server draws for each session.
    """
    return hashlib.sha256(b"fedboard secure sum 1" + nonce + about).digest()


def step_of(message: bytes) -> tuple[MaskingStep, Frame]:
    """Which step a server's message asks for.

    Raises:
        RefusedError: it is no message of this protocol.
    """
    kinds = tuple(_asking(step) for step in MaskingStep)
    frame = unpack_frame(message, kinds=kinds, limit=_MOST_TO_A_CLIENT)
    return MaskingStep(kinds.index(frame.kind)), frame


def ask(step: MaskingStep, session: bytes, arrays: Mapping[str, NDArray[Any]], **fields: int | str) -> bytes:
    """A message to a client."""
    return pack_frame(_asking(step), {"session": session.hex(), **fields}, arrays)


def reply(step: MaskingStep, session: bytes, array: NDArray[Any]) -> bytes:
    """A message from a client."""
    return pack_frame(_replying(step), {"session": session.hex()}, {"content": array})


def read_reply(
    content: bytes, step: MaskingStep, session: bytes, dtype: str, shape: tuple[int, ...]
) -> NDArray[Any]:
    """The one array of a client's reply.

    Args:
        content: from a client that need not be honest.
        step: whose reply it must be.
        session: that it must belong to.
        dtype: that its array must have.
        shape: likewise.

    Raises:
        RefusedError: it is anything else.
    """
    limit = _LARGEST_HEADER + prod(shape) * np.dtype(dtype).itemsize
    frame = unpack_frame(content, kinds=(_replying(step),), limit=limit)
    _require_session(frame.read(_Fields).session, session)
    return frame.arrays_as({"content": (dtype, shape)})[0]


def read_session(frame: Frame, about: bytes, *, vouched: bool) -> tuple[bytes, bytes]:
    """The session that a first message begins, and the list of devices in it, empty where there is none.

    Args:
        frame: from a server that need not be honest.
        about: run, round and board that it must be about.
        vouched: whether there must be a list.

    Raises:
        RefusedError: it is about others, or has no list where one must be, or the other way round.
    """
    arrays = frame.arrays_as({"roster": ("u1", (None,))} if vouched else {})
    fields = frame.read(_FirstFields)
    try:
        nonce = bytes.fromhex(fields.nonce)
    except ValueError:
        raise RefusedError(Refusal.MALFORMED) from None
    if len(nonce) != NONCE_BYTES:
        raise RefusedError(Refusal.MALFORMED)
    session = session_of(about, nonce)
    _require_session(fields.session, session)
    return session, b"".join(array.tobytes() for array in arrays)


def read_count(frame: Frame, session: bytes) -> int:
    """How many clients a message says there are.

    Raises:
        RefusedError: none or too many, or another session's message.
    """
    fields = frame.read(_CountedFields)
    _require_session(fields.session, session)
    if not 0 < fields.clients <= MOST_CLIENTS:
        raise RefusedError(Refusal.MALFORMED)
    return fields.clients


def _require_session(stated: str, session: bytes) -> None:
    if stated != session.hex():
        raise RefusedError(Refusal.NO_SESSION)


def table(rows: list[bytes], width: int) -> NDArray[np.uint8]:
    """Rows of ``width`` bytes as an array, uint8, shape (n, width)."""
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), width)


def shapes_to_client(step: MaskingStep, layout: Layout) -> Shapes:
    """What a message to a client holds, but for the first."""
    size = layout.size
    signatures: Shapes = {} if layout.devices is None else {"signatures": ("u1", (None, SIGNATURE_BYTES))}
    shapes: dict[MaskingStep, Shapes] = {
        MaskingStep.KEYS: {},
        MaskingStep.SHARES: {
            "neighbours": ("u1", (size, layout.keys_bytes)),
            **layout.sets("members"),
        },
        MaskingStep.MASKED: {"there": ("u1", (size,)), "boxes": ("u1", (size, BOX_BYTES))},
        MaskingStep.CONFIRM: layout.sets("there", "stayed"),
        MaskingStep.UNMASK: {"wanted": ("u1", (size,)), **layout.sets("signers"), **signatures},
    }
    return shapes[step]


def shape_from_client(step: MaskingStep, layout: Layout) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of what a client replies."""
    shapes: dict[MaskingStep, tuple[str, tuple[int, ...]]] = {
        MaskingStep.KEYS: ("u1", (layout.keys_bytes,)),
        MaskingStep.SHARES: ("u1", (layout.size, BOX_BYTES)),
        MaskingStep.MASKED: ("u4", (layout.numbers,)),
        MaskingStep.CONFIRM: ("u1", (SIGNATURE_BYTES,)),
        MaskingStep.UNMASK: ("u1", (layout.size, SHARE_BYTES)),
    }
    return shapes[step]


def _asking(step: MaskingStep) -> str:
    return f"secure-sum {step.name.lower()}"


def _replying(step: MaskingStep) -> str:
    return f"secure-sum {step.name.lower()} reply"
