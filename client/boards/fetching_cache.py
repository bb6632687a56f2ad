"""A cache of boards that fetches what it is asked for and does not hold: for a device that answers about published
boards alone.
"""

import logging
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.seen import CosignedBoards, Seen, Trust
from fedboard.client.boards.sources import PASSING, Patience, open_source
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.layout import SEEN
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError
from fedboard.common.messages.certificate_dates import read_authority

_log = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 30.0
"""A board is signed some seconds after it is made, and the question about it may come before."""
_REPLY_SECONDS: Final = 10.0
_PAUSE: Final = (0.5, 1.5)


class FetchingCache(BoardCache):
    """A cache that looks where boards come from before it says that a board was not published.

    Guarantee: as for ``BoardCache``; what is fetched is verified as ``BoardFeed`` does. What is asked of the source
    is its newest board, so that it learns no more than from any other reader.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        source: str,
        public_key: Path,
        authority: Path | None = None,
        simulation: bool = False,
        wait_seconds: float = _WAIT_SECONDS,
        witnesses: Witnesses | None = None,
    ) -> None:
        """Use a folder; nothing is fetched yet.

        Args:
            folder: the place.
            max_bytes: of all boards together, and of one that is taken.
            source: of boards, as ``open_source`` takes it.
            public_key: PEM file of the key that signs them.
            authority: PEM file of the authority that vouches for the source; None: the system's.
            simulation: whether to take boards whose noise can be reproduced from its seed.
            wait_seconds: for a board that is not there yet, or that too few witnesses have cosigned yet.
            witnesses: who must have cosigned a board; None: nobody.

        Raises:
            InputError: key or certificate cannot be read.
        """
        super().__init__(folder, max_bytes=max_bytes)
        if authority is not None:
            read_authority(authority)
        self._largest, self._place, self._authority = max_bytes, source, authority
        self._simulation, self._wait_seconds = simulation, wait_seconds
        self._key = PinnedKey.read(public_key, witnesses=witnesses)

    def holds(self, digest: str) -> bool:
        """Whether a board with this digest was published: it is here, or comes within the time.

        Where the newest manifest that was seen has expired, nothing counts as published until a newer one comes: a
        server that is frozen for readers gets no answers about old boards.
        """
        end = time.monotonic() + self._wait_seconds
        while not self._counts(digest):
            again = self._fetch()
            if self._counts(digest):
                break
            if not again or time.monotonic() > end:
                _log.warning("%s does not publish the board %s that is asked about", self._place, digest[:16])
                return False
            time.sleep(random.uniform(*_PAUSE))
        return True

    def _counts(self, digest: str) -> bool:
        if not super().holds(digest):
            return False
        keys = Trust(self._key, self.folder).keys
        if keys.witnesses is not None and not CosignedBoards(keys.witnesses, self.folder).has(digest):
            return False
        if not (self.folder / SEEN).exists():
            return True
        chain = Seen(self.folder, keys)
        try:
            chain.require_whole()
        except FeedRefusedError:
            return False
        seen = chain.newest()  # None: by a key that was replaced, and its boards may be a thief's
        return seen is not None and keys.root.is_current() and seen.manifest.is_current()

    def _fetch(self) -> bool:
        """Take the newest board; whether it is worth while to ask again."""
        try:
            with closing(
                open_source(self._place, authority=self._authority, seconds=_REPLY_SECONDS)
            ) as source:
                BoardFeed(
                    source,
                    self._key,
                    self,
                    max_bytes=self._largest,
                    simulation=self._simulation,
                    patience=Patience(attempts=1),
                ).fetch()
        except FeedRefusedError as refused:
            _log.warning("no board from %s: %s", self._place, refused)
            return refused.code in PASSING | {FeedCode.NOT_WITNESSED}
        except InputError as error:  # another process is fetching into this folder, or the source is none
            _log.warning("no board from %s: %s", self._place, error)
        return True
