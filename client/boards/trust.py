"""Following the chain of root documents: from what was pinned to who may sign now."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from fedboard.client.boards.sources import BoardSource
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.layout import ROOTS, root_name
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.files import write_atomically
from fedboard.common.keys.roots import MOST_ROOTS, RootError
from fedboard.common.keys.validity import Clock

Ask: TypeAlias = Callable[[Callable[[], bytes]], bytes]
"""Asks a source, again where it is busy."""


class Trust:
    """Who may sign, as a reader knows it: what she pinned, and every root that followed it.

    Guarantee: a root is believed only if a threshold of the keys of the one before, and of its own, have signed
    it; those that are kept are verified again, from the pinned one on, each time they are read. A reader who was
    away for many roots follows them one by one, and stops at a gap.
    Not guaranteed: that there is no newer root; whoever stands between can keep it back, until the one that is
    known expires.
    """

    def __init__(self, pinned: PinnedKey, kept: Path | None = None, *, clock: Clock = time.time) -> None:
        """Start from what is pinned, and what is kept.

        Args:
            pinned: known beforehand.
            kept: folder in which roots are remembered; None: they are not.
            clock: of this machine.
        """
        self._kept, self._clock = kept, clock
        self.keys = pinned if kept is None else pinned.followed(lambda version: kept / root_name(version))
        """Of the newest root that is known. What is kept of a chain from another pinned key does not count."""

    def follow(self, source: BoardSource, ask: Ask = lambda question: question()) -> PinnedKey:
        """Take the roots that a source has after the newest known one.

        Args:
            source: trusted for nothing.
            ask: with patience, where the reader has any.

        Returns:
            Who may sign now.

        Raises:
            FeedRefusedError: ``bad-root`` for one that does not follow; those before it count. ``root-expired``
                where the newest has. Or the source cannot be read.
        """
        for _ in range(MOST_ROOTS):
            if not self._took_next(source, ask):
                break
        if not self.keys.root.is_current(self._clock):  # that of one in between does not matter
            raise FeedRefusedError(FeedCode.ROOT_EXPIRED)
        return self.keys

    def _took_next(self, source: BoardSource, ask: Ask) -> bool:
        try:
            content = ask(partial(source.root, self.keys.root.version + 1))
        except FeedRefusedError as error:
            if error.code is FeedCode.NOT_FOUND:
                return False
            raise
        try:
            self.keys = self.keys.successor(content)
        except RootError as error:
            raise FeedRefusedError(FeedCode.BAD_ROOT) from error
        self._keep(content)
        return True

    def _keep(self, content: bytes) -> None:
        if self._kept is not None:
            (self._kept / ROOTS).mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._kept / root_name(self.keys.root.version), content)
