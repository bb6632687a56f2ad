"""What a server hands to a device that joins: its authority, the keys that it signs with, and what it trains.

All of it is public. The device takes it from anybody, and believes it because its SHA-256 is in the invitation; so
the server that answers must be the one whose operator made the invitation, with the keys of that moment.
"""

import hashlib

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.keys.ed25519_keys import public_pem
from fedboard.common.keys.roots import Root, RootError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency

INTRODUCTION_PATH = "/v1/enrolment/introduction"
JOIN_PATH = "/v1/enrolment/join"
LARGEST_INTRODUCTION = 1 << 18
_DOMAIN = b"fedboard-introduction-1\0"
_FORMAT = 1


class Introduction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one fleet. Public."""

    format: int = _FORMAT
    run: str
    """Name of the training."""
    task: str
    protocol: str
    """Name of the aggregation protocol."""
    epsilon: float
    """That the training asks of each user in all; what a device gives is its owner's to say."""
    delta: float
    adjacency: Adjacency
    authority: str
    """PEM text: who vouches for the server's certificate."""
    question_key: str
    """Who may ask: an Ed25519 key, hexadecimal."""
    board_key: str | None = None
    """Who signs boards, where they are served: an Ed25519 key, hexadecimal."""
    root: str | None = None
    """The newest root document, which names those keys and later ones; None where they are pinned themselves."""
    board_port: int | None = None
    """Where they are served, at the same host."""

    def to_bytes(self) -> bytes:
        """As it is handed over; the same for the same content."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def budget(self) -> Budget:
        """What the training asks of each user."""
        return Budget(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency)

    @staticmethod
    def open(content: bytes, *, digest: bytes) -> "Introduction":
        """Read what a server has sent, if it is the one that the invitation names; nothing of it is read before.

        Args:
            content: from anybody.
            digest: from the invitation.

        Raises:
            InputError: another one, or not one of this format.
        """
        if digest_of_introduction(content) != digest:
            raise InputError(
                "the server that answers does not have the keys that this invitation names: it is another one, "
                "somebody is in between, or its keys were changed since; ask for a new invitation, and say so"
            )
        try:
            found = msgspec.json.decode(content, type=Introduction)
            found.budget  # noqa: B018 (checks the ranges)
            for key in (found.question_key, found.board_key):
                if key is not None:
                    public_pem(bytes.fromhex(key))
            if found.root is not None:
                Root.from_bytes(found.root.encode())
        except (msgspec.DecodeError, ValueError, RecursionError, RootError) as error:
            raise InputError(f"the server's introduction cannot be read ({error})") from error
        if found.format != _FORMAT:
            raise InputError(
                f"the server introduces itself in format {found.format}, and this version of fedboard reads "
                f"{_FORMAT}; install the version of the server"
            )
        return found


def digest_of_introduction(content: bytes) -> bytes:
    """What an invitation names it by."""
    return hashlib.sha256(_DOMAIN + content).digest()
