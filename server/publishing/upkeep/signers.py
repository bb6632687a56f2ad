"""Who signs a mirror's boards, by which root, and for how long what they sign is good."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import ROOTS
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.common.keys.root_folder import RootFolder
from fedboard.common.keys.roots import Root
from fedboard.common.keys.validity import DAY_SECONDS, Clock, utc_seconds, utc_text
from fedboard.server.publishing.signing import SigningKey

USUAL_DAYS: Final = 30.0
"""How long a manifest is good unless it is said otherwise."""
LEAST_DAYS: Final = 0.01
MOST_DAYS: Final = 3660.0


def require_days(name: str, days: float) -> None:
    """Refuse a time that is too short to be renewed, or longer than anybody should trust a signature.

    Raises:
        InputError: out of range.
    """
    if not LEAST_DAYS <= days <= MOST_DAYS:
        raise InputError(f"{name} must be in [{LEAST_DAYS}, {MOST_DAYS:.0f}], got {days:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """What signs the boards of one run into one mirror."""

    key: SigningKey
    run: str
    """Public name of the run."""
    days: float = USUAL_DAYS
    """How long what it signs is good; it is signed again when half of that is over."""
    chain: tuple[Root, ...] = ()
    """The roots that readers follow, oldest first; empty where they have pinned the one key."""
    clock: Clock = field(default=time.time)

    def __post_init__(self) -> None:
        """Check that readers will take what it signs.

        Raises:
            InputError: the newest root has expired or does not name the keys, or the time is out of range.
        """
        require_days("the days that a manifest is good", self.days)
        if not self.chain:
            return
        newest = self.chain[-1]
        if not newest.is_current(self.clock):
            raise InputError(
                f"version {newest.version} of the root has expired on {newest.expires}, and readers refuse what is "
                "signed under it; its holders sign the next one: fedboard keys rotate"
            )
        self.key.require_listed(newest)

    @property
    def keys(self) -> PinnedKey:
        """Whose signatures readers take now."""
        return PinnedKey(self.chain[-1]) if self.chain else self.key.public

    def expiry(self) -> str:
        """Until when a manifest is good that is signed now."""
        return utc_text(self.clock() + self.days * DAY_SECONDS)

    def is_due(self, manifest: Manifest) -> bool:
        """Whether the newest manifest is to be signed again: half of its time is over, or it was signed by a clock
        that was ahead.
        """
        if not manifest.is_current(self.clock):
            return True
        return utc_seconds(manifest.expires) - self.clock() < self.days * DAY_SECONDS / 2

    def own(self, signed: SignedManifest) -> tuple[Manifest, bool]:
        """A manifest of the mirror, and whether readers take its signatures: not where an earlier root's keys made
        them.

        Raises:
            InputError: it is of another run, key or format.
        """
        manifest, taken = self._opened(signed)
        if manifest.run != self.run:
            raise InputError(
                f"the mirror holds boards of the run {manifest.run!r}, not of {self.run!r}; use another folder"
            )
        return manifest, taken

    def _opened(self, signed: SignedManifest) -> tuple[Manifest, bool]:
        earlier = (PinnedKey(root) for root in reversed(self.chain[:-1]))
        for place, keys in enumerate((self.keys, *earlier, self.key.public)):
            try:
                return keys.open(signed), place == 0
            except FeedRefusedError:
                continue
        raise InputError(
            "the mirror's boards are signed by another key, of another format, or damaged; sign with that key, or "
            "sign the boards again into another folder"
        )


def chain_for(mirror: Path, roots: Path | None) -> tuple[Root, ...]:
    """The roots that a mirror's readers are to follow.

    Args:
        mirror: its folder, which may have roots already.
        roots: the operator's folder of roots; None: those that the mirror has.

    Raises:
        InputError: no root there counts yet, or the mirror has newer ones, or others of the same version.
    """
    published = RootFolder(mirror / ROOTS).chain()
    if roots is None:
        return tuple(published)
    chain = RootFolder(roots).chain()
    if not chain:
        raise InputError(
            f"{roots}: no root there is signed by enough of its keys; make one with fedboard keys root, and sign "
            "it with fedboard keys sign"
        )
    if published and published[-1].version > chain[-1].version:
        raise InputError(
            f"{roots}: readers of {mirror} have version {published[-1].version} of the root already, and the "
            f"newest one here is {chain[-1].version}; copy the newer ones here first"
        )
    contents = {root.version: root.content for root in chain}
    for root in published:
        if contents.get(root.version, root.content) != root.content:
            raise InputError(
                f"{roots}: version {root.version} of the root is another one than readers of {mirror} have"
            )
    return tuple(chain)
