"""How the manifests of a run follow each other, and when two of them contradict each other.

All manifests of a run are one chain: each names the one before it by the SHA-256 of its content. A version has one
board; a renewal says the same of it again; and the ledger only grows. Readers, witnesses and whoever publishes hold
a chain to the same rules.
"""

from fedboard.common.boards.manifest import Manifest, SignedManifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

MOST_STEPS = 100_000
"""Most manifests of one run that are read of a chain."""


def manifest_of(signed: SignedManifest) -> Manifest:
    """What a signed manifest says; its signatures are not looked at.

    Raises:
        FeedRefusedError: ``malformed``.
    """
    return Manifest.from_bytes(signed.content.encode())


def require_next(before: Manifest, digest: str, after: Manifest) -> None:
    """Refuse a manifest that does not follow another one in the chain.

    Args:
        before: the earlier one.
        digest: SHA-256 of its content.
        after: said to be the one after it.

    Raises:
        FeedRefusedError: ``broken-chain``, ``wrong-run`` or ``ledger-changed``.
    """
    require_later(before, after)
    renewed = after.version == before.version
    in_order = after.renewal == before.renewal + 1 if renewed else after.renewal == 0
    if after.previous_manifest != digest or not in_order:
        raise FeedRefusedError(FeedCode.BROKEN_CHAIN)


def require_later(before: Manifest, after: Manifest) -> None:
    """Refuse a manifest that cannot be later in the same chain, whatever is between.

    Raises:
        FeedRefusedError: as for ``require_next``.
    """
    if after.run != before.run or after.run_id != before.run_id:
        raise FeedRefusedError(FeedCode.WRONG_RUN)
    if after.version < before.version or contradict(before, after):
        raise FeedRefusedError(FeedCode.BROKEN_CHAIN)
    same_length = after.releases == before.releases
    if after.releases < before.releases or (same_length and after.ledger_head != before.ledger_head):
        raise FeedRefusedError(FeedCode.LEDGER_CHANGED)


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
