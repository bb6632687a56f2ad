"""Whose questions a device answers where it has pinned a root: those of the keys that the newest root names."""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.client.boards.seen import Trust
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.roots import QUESTIONS, Root
from fedboard.common.boards.validity import Clock
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import PinnedServer

if TYPE_CHECKING:  # a device that has pinned a key asks nobody for roots
    from fedboard.client.boards.sources import BoardSource

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 600.0
"""A device that is asked looks for a newer root when it has not for so long."""
AT_ONCE_SECONDS: Final = 60.0
"""And when a signature is not that of a key it knows, but not more often than this."""
_REPLY_SECONDS: Final = 5.0


@dataclass(kw_only=True)
class FollowedServer:
    """The keys that sign questions, along the chain of roots.

    Guarantee: a question is opened only if a key of the newest root that is known here has signed it and that root
    has not expired; roots are followed as boards' readers do (see ``Trust``), and remembered.
    Not guaranteed: that there is no newer root; whoever keeps the source from this device keeps roots from it too,
    until the one that it knows expires.
    """

    pinned: PinnedKey
    """A root, known beforehand."""
    kept: Path
    """Folder in which the roots that followed are remembered."""
    source: "Callable[[], BoardSource] | None" = None
    """Where newer roots are looked for; None: nowhere."""
    monotonic: Clock = time.monotonic
    _trust: Trust = field(init=False)
    _looked: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Take up what is remembered."""
        self._trust = Trust(self.pinned, self.kept)

    @property
    def id(self) -> str:
        """A short name of what is pinned: it stays the same when keys are replaced, as do answers that are kept."""
        return sha256(self.pinned.root.content or b"").hexdigest()[:16]

    def open(self, signed: bytes, *, beside: bytes | None = None, clock: Clock = time.time) -> memoryview:
        """The message, if this server has signed it and it may still be answered; see ``PinnedServer.open``.

        Raises:
            RefusedError: ``unsigned``, ``bad-signature`` or ``expired``.
        """
        self._look(every=LOOK_SECONDS)
        try:
            return self._opened(signed, beside=beside, clock=clock)
        except RefusedError as refused:
            if refused.code is not Refusal.BAD_SIGNATURE or not self._look(every=AT_ONCE_SECONDS):
                raise
        return self._opened(signed, beside=beside, clock=clock)

    def _opened(self, signed: bytes, *, beside: bytes | None, clock: Clock) -> memoryview:
        for key in _keys(self._trust.keys.root, clock):
            try:
                return PinnedServer(key).open(signed, beside=beside, clock=clock)
            except RefusedError as refused:
                if refused.code is not Refusal.BAD_SIGNATURE:
                    raise
        raise RefusedError(Refusal.BAD_SIGNATURE)

    def _look(self, *, every: float) -> bool:
        """Follow the roots, if the last look is so long ago; whether a newer one was found."""
        now = self.monotonic()
        if self.source is None or (self._looked is not None and now - self._looked < every):
            return False
        self._looked, before = now, self._trust.keys.root.version
        try:
            with closing(self.source()) as source:
                self._trust.follow(source)
        except (FeedRefusedError, InputError, OSError) as error:
            _log.warning("no newer root: %s", error)
        return self._trust.keys.root.version > before


def _keys(root: Root, clock: Clock) -> list[Ed25519PublicKey]:
    role = root.roles.get(QUESTIONS)
    if not root.is_current(clock):
        _log.warning(
            "version %d of the root has expired on %s: nothing is answered", root.version, root.expires
        )
        return []
    if role is None or role.threshold != 1:  # a question carries one signature
        return []
    return [Ed25519PublicKey.from_public_bytes(key) for key in role.keys]


def _is_json(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def server_of(
    path: Path,
    *,
    kept: Path,
    source: str | None = None,
    authority: Path | None = None,
    witnesses: Witnesses | None = None,
) -> PinnedServer | FollowedServer:
    """What a device has pinned of those who may ask: one key, or a root.

    Args:
        path: PEM file (``questions.pub``), or a root document (``1.root.json``).
        kept: folder in which newer roots are remembered.
        source: of boards, which has the roots too.
        authority: PEM file of the authority that vouches for it; None: the system's.
        witnesses: who must have signed a root that names others; None: nobody.

    Raises:
        InputError: neither is there, or the root names nobody who may ask.
    """
    if not _is_json(path):
        return PinnedServer.read(path)
    from fedboard.client.boards.sources import (
        open_source,
    )  # HTTP, which a device with a pinned key does without

    pinned = PinnedKey.read(path, witnesses=witnesses)
    if QUESTIONS not in pinned.root.roles:
        raise InputError(
            f"{path}: this root names no key that signs questions; its holders add it with fedboard keys rotate "
            "--question-key, and you pin that root, or pin questions.pub"
        )
    ask = None if source is None else lambda: open_source(source, authority=authority, seconds=_REPLY_SECONDS)
    return FollowedServer(pinned=pinned, kept=kept, source=ask)
