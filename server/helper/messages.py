"""What leader and helper say to each other: three questions and their replies, as MessagePack, read strictly."""

from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np

from fedboard.common.arrays import ResidueArray
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.helper import HelperPart

SERVICE: Final = "fedboard.Helper"
"""Its methods are named as what they are asked: ``Begin``, ``Take``, ``Total``."""
MOST_BYTES: Final = (1 << 31) - 1
"""Of one message: gRPC's own limit."""
_RESIDUES: Final = np.dtype("<u4")

_Kind = TypeVar("_Kind", bound="Message")
_Count = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Of either side; its kind goes with it."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        return msgspec.msgpack.encode(self)


class Begin(Message, frozen=True):
    """Asks for the key of a round."""

    about: bytes
    parameters: dict[str, Any]
    """Of the protocol."""
    board: bytes


class Take(Message, frozen=True):
    """Hands over one client's part."""

    about: bytes
    client: str
    shape: tuple[_Count, _Count]
    """Of the keys."""
    keys: bytes
    sealed: bytes

    @classmethod
    def of(cls, about: bytes, client: str, part: HelperPart) -> "Take":
        """The message about one part."""
        n_users, width = part.keys.shape
        return cls(about, client, (n_users, width), part.keys.tobytes(), part.sealed)

    @property
    def part(self) -> HelperPart:
        """The part.

        Raises:
            RefusedError: its keys have another shape than it says.
        """
        try:
            keys = np.frombuffer(self.keys, dtype=np.uint8).reshape(self.shape)
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None
        return HelperPart(keys=keys, sealed=self.sealed)


class Total(Message, frozen=True):
    """Asks for the total over these clients."""

    about: bytes
    clients: tuple[str, ...]


class Key(Message, frozen=True):
    """The key of a round: ``RoundKey``."""

    key: bytes
    identity: bytes
    signature: bytes


class Taken(Message, frozen=True):
    """A part counts."""


class Share(Message, frozen=True):
    """The helper's total."""

    share: bytes
    """uint32, little-endian."""

    @classmethod
    def of(cls, share: ResidueArray) -> "Share":
        """The message about one total."""
        return cls(share.astype(_RESIDUES, copy=False).tobytes())

    @property
    def residues(self) -> ResidueArray:
        """The total.

        Raises:
            RefusedError: it ends within a number.
        """
        try:
            return np.frombuffer(self.share, dtype=_RESIDUES).astype(np.uint32, copy=False)
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None


class Refused(Message, frozen=True):
    """No."""

    code: Refusal


def read(content: bytes, kind: type[_Kind]) -> _Kind:
    """A message of this kind.

    Raises:
        RefusedError: with the code of a refusal, or it is neither.
    """
    try:
        found: _Kind | Refused = msgspec.msgpack.decode(content, type=kind | Refused)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError(Refusal.MALFORMED) from None
    if isinstance(found, Refused):
        raise RefusedError(found.code)
    return found
