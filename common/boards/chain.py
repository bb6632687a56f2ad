"""How the manifests of a run follow each other, and when two of them contradict each other.

All manifests of a run are one chain: each names the one before it by the SHA-256 of its content. A version has one
board; a renewal says the same of it again; and the ledger only grows. Readers, witnesses and whoever publishes hold
a chain to the same rules.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fedboard.common.boards.manifest import Manifest, SignedManifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

MOST_STEPS = 100_000
"""Most manifests of one run that are read of a chain."""

Earlier: TypeAlias = Callable[[str], SignedManifest]
"""Gives the manifest whose content has this SHA-256, from a source that nobody trusts."""


@dataclass(frozen=True, slots=True)
class Link:
    """One signed manifest of a chain, read; its signatures are another question."""

    signed: SignedManifest
    manifest: Manifest

    @classmethod
    def of(cls, signed: SignedManifest) -> "Link":
        """Read what is signed.

        Raises:
            FeedRefusedError: ``malformed``.
        """
        return cls(signed, Manifest.from_bytes(signed.content.encode()))

    @property
    def digest(self) -> str:
        """By which the next one names it."""
        return self.signed.digest


def require_next(before: Link, after: Link) -> None:
    """Refuse a manifest that does not follow another one in the chain.

    Raises:
        FeedRefusedError: ``broken-chain``, ``wrong-run`` or ``ledger-changed``.
    """
    first, second = before.manifest, after.manifest
    require_later(first, second)
    renewed = second.version == first.version
    in_order = second.renewal == first.renewal + 1 if renewed else second.renewal == 0
    if second.previous_manifest != before.digest or not in_order:
        raise FeedRefusedError(FeedCode.BROKEN_CHAIN)


def back_from(link: Link, earlier: Earlier) -> Iterator[Link]:
    """The manifests before one that counts, newest first: each is named by the one after it, so that no signature
    on it need be looked at.

    Raises:
        FeedRefusedError: ``broken-chain`` and its like, or the source has not all of them.
    """
    for _ in range(MOST_STEPS):
        digest = link.manifest.previous_manifest
        if digest is None:
            return
        try:
            before = Link.of(earlier(digest))
        except FeedRefusedError as error:
            code = FeedCode.BROKEN_CHAIN if error.code is FeedCode.NOT_FOUND else error.code
            raise FeedRefusedError(code) from error
        if before.digest != digest:
            raise FeedRefusedError(FeedCode.WRONG_DIGEST)
        require_next(before, link)
        yield before
        link = before


def require_later(before: Manifest, after: Manifest) -> None:
    """Refuse a manifest that cannot be later in the same chain, whatever is between.

    Raises:
        FeedRefusedError: as for ``require_next``.
    """
    if after.run != before.run or after.run_id != before.run_id:
        raise FeedRefusedError(FeedCode.WRONG_RUN)
    same_length = after.releases == before.releases
    if after.releases < before.releases or (same_length and after.ledger_head != before.ledger_head):
        raise FeedRefusedError(FeedCode.LEDGER_CHANGED)
    if after.version < before.version or contradict(before, after):
        raise FeedRefusedError(FeedCode.BROKEN_CHAIN)


def contradict(one: Manifest, other: Manifest) -> bool:
    """Whether nobody honest can have signed both: two runs under one name, two boards or two ledgers for one
    version, or a board that does not continue the one before it.
    """
    if one.run != other.run:
        return False
    earlier, later = sorted((one, other), key=lambda manifest: manifest.place)
    if one.run_id != other.run_id or later.releases < earlier.releases:
        return True
    if earlier.version == later.version:
        return earlier.statement != later.statement
    return later.version == earlier.version + 1 and later.previous_digest != earlier.board_digest
