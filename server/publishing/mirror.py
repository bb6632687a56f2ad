"""Signing boards into a mirror: a plain folder with everything that readers need, and nothing else.

Files come before the manifest that names them, the manifest before the cosignatures of witnesses, and
``latest.json`` is last: a reader, or a crash, never meets half a board. What was signed once is never signed
otherwise: the chain is on disk before anybody is shown its end.

A thread that signs boards into a mirror as a run publishes them, and again before their signatures expire.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import pack
from fedboard.common.boards.manifest import RUN_ID_DIGITS, BoardFile, Link, Manifest
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.roots import Root, RootFolder
from fedboard.common.boards.validity import DAY_SECONDS, Clock, utc_seconds, utc_text
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.files import write_atomically
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protection import Protection
from fedboard.server.publication import BoardStore
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import CheckedBoard, SigningKey

__all__ = ["Mirror", "Signer", "chain_for", "publish_into", "renew_into", "require_days", "run_id_of"]

USUAL_DAYS: Final = 30.0
"""How long a manifest is good unless it is said otherwise."""
LEAST_DAYS: Final = 0.01
MOST_DAYS: Final = 3660.0
_LEDGER = "ledger.sqlite"


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

    def takes(self, link: Link) -> bool:
        """Whether readers take the signatures on the newest manifest of a mirror: not where keys made them that an
        earlier root named.

        Raises:
            InputError: it is of another run, or of a key that no root named.
        """
        earlier = (PinnedKey(root) for root in reversed(self.chain[:-1]))
        signed = [_has_signed(keys, link.signed) for keys in (self.keys, *earlier, self.key.public)]
        if not any(signed):
            raise InputError(
                "the mirror's boards are signed by another key; sign with that key, or sign the boards again into "
                "another folder"
            )
        if link.manifest.run != self.run:
            raise InputError(
                f"the mirror holds boards of the run {link.manifest.run!r}, not of {self.run!r}; use another folder"
            )
        return signed[0]

    def again(self, mirror: Mirror, link: Link) -> SignedManifest:
        """The newest manifest with later dates: the next of the chain. Nothing of its board changes: the file is
        read again, and its certificate recomputed.

        Raises:
            InputError: the board's file is missing or damaged.
            PrivacyError: its certificate does not hold.
        """
        manifest = link.manifest
        renewed = msgspec.structs.replace(
            manifest,
            signed=utc_text(self.clock()),
            expires=self.expiry(),
            renewal=manifest.renewal + 1,
            key_id=self.key.id,
            previous_manifest=link.digest,
        )
        asked_for = manifest.protection is Protection.SIMULATION  # by somebody, when it was first signed
        return self.key.sign(renewed, CheckedBoard(board=mirror.board(link), simulation=asked_for))


def publish_into(
    mirror: Mirror,
    boards: Path,
    *,
    key: SigningKey,
    run: str,
    simulation: bool = False,
    days: float = USUAL_DAYS,
    roots: Path | None = None,
    clock: Clock = time.time,
    witnesses: Witnesses | None = None,
) -> list[int]:
    """Sign the boards of a folder that the mirror does not have yet, and the newest one again where it is due; then
    publish what enough witnesses have cosigned.

    Every new board's certificate is recomputed before anything is written: where one is refused, none is signed.

    Args:
        mirror: of this run alone.
        boards: a ``BoardStore``'s folder; its files are complete under their names.
        key: signs.
        run: public name of the run, the same for all its boards.
        simulation: whether to sign boards whose noise can be reproduced from its seed, marked as what they are.
        days: how long a manifest is good; in [0.01, 3660].
        roots: folder of the root documents that say who may sign, which are published too; None: those that the
            mirror has, if any.
        clock: of this machine.
        witnesses: whose cosignatures are waited for; None: nobody's.

    Returns:
        The versions that were signed now.

    Raises:
        InputError: a board is damaged, the mirror holds boards of another run or key, or the newest root has
            expired or does not name the key.
        PrivacyError: a board does not continue the one before it, its certificate does not hold, the mirror holds
            the boards of another ledger, or the noise is seeded and simulations were not asked for.
    """
    with mirror.writing():
        signer = Signer(key=key, run=run, days=days, chain=chain_for(mirror, roots), clock=clock)
        mirror.wait_for(witnesses)
        last, store = _renewed(mirror, signer), BoardStore(boards)
        newest = -1 if last is None else last.manifest.version
        new = [version for version in store.versions() if version > newest]
        run_id = run_id_of(boards, last)
        for checked in [_checked(store, version, simulation=simulation) for version in new]:
            signed = _signed(mirror, store, checked, previous=last, signer=signer, run_id=run_id)
            last = mirror.add(signed)
        mirror.publish()
    return new


def renew_into(mirror: Mirror, signer: Signer) -> Link | None:
    """Sign the newest manifest of a mirror again, whether it is due or not.

    Returns:
        The end of the chain; None where the mirror is empty.

    Raises:
        InputError, PrivacyError: as for ``publish_into``.
    """
    with mirror.writing():
        last = _renewed(mirror, signer, now=True)
        mirror.publish()
    return last


def run_id_of(boards: Path, last: Link | None = None) -> str:
    """The id of the ledger that paid for the boards of a folder.

    Where there is no ledger beside them, as where boards were copied: that of the mirror, or what the first board
    gives.

    Args:
        boards: the folder.
        last: the end of the mirror's chain.

    Raises:
        PrivacyError: the mirror holds the boards of another ledger.
    """
    known = None if last is None else last.manifest.run_id
    ledgers = [folder / _LEDGER for folder in (boards, boards.parent) if (folder / _LEDGER).is_file()]
    if ledgers:
        with Ledger.open(ledgers[0], read_only=True) as ledger:
            own = ledger.id
        if known not in (None, own):
            raise PrivacyError(
                f"{ledgers[0]}: the mirror holds boards of this name that another ledger paid for ({known}, not "
                f"{own}), and a name has one ledger; publish this run under another name, into another folder"
            )
        return own
    if known is not None:
        return known
    store = BoardStore(boards)
    versions = store.versions()
    return store.load(versions[0]).digest[:RUN_ID_DIGITS] if versions else "0" * RUN_ID_DIGITS


def chain_for(mirror: Mirror, roots: Path | None) -> tuple[Root, ...]:
    """The roots that a mirror's readers are to follow.

    Args:
        mirror: may have roots already.
        roots: the operator's folder of roots; None: those that the mirror has.

    Raises:
        InputError: no root there counts yet, or the mirror has newer ones, or others of the same version.
    """
    published = mirror.roots.chain()
    if roots is None:
        waiting = mirror.next_roots.chain()
        return tuple(waiting if len(waiting) > len(published) else published)
    chain = RootFolder(roots).chain()
    if not chain:
        raise InputError(
            f"{roots}: no root there is signed by enough of its keys; make one with fedboard keys rotate, and sign "
            "it with fedboard keys sign"
        )
    if published and published[-1].version > chain[-1].version:
        raise InputError(
            f"{roots}: readers of {mirror.folder} have version {published[-1].version} of the root already, and "
            f"the newest one here is {chain[-1].version}; copy the newer ones here first"
        )
    contents = {root.version: root.content for root in chain}
    for root in published:
        if contents.get(root.version, root.content) != root.content:
            raise InputError(
                f"{roots}: version {root.version} of the root is another one than readers of {mirror.folder} have"
            )
    return tuple(chain)


def _renewed(mirror: Mirror, signer: Signer, *, now: bool = False) -> Link | None:
    """The end of the chain, signed again where readers do not take its signatures or half of its time is over."""
    chain = mirror.chain()
    taken = not chain or signer.takes(chain[-1])
    due = chain and (now or not taken or signer.is_due(chain[-1].manifest))
    again = signer.again(mirror, chain[-1]) if due else None  # worked out before anything is written
    mirror.next_roots.take(list(signer.chain))
    if again is not None:
        return mirror.add(again)
    return chain[-1] if chain else None


def _checked(store: BoardStore, version: int, *, simulation: bool) -> CheckedBoard:
    board = store.load(version)
    if board.version != version:
        raise InputError(f"{store.path(version)}: this is version {board.version}")
    return CheckedBoard(board=board, simulation=simulation)


def _signed(
    mirror: Mirror,
    store: BoardStore,
    checked: CheckedBoard,
    *,
    previous: Link | None,
    signer: Signer,
    run_id: str,
) -> SignedManifest:
    board, version = checked.board, checked.board.version
    before = None if previous is None else previous.manifest
    if before and version == before.version + 1 and board.previous_digest != before.board_digest:
        raise PrivacyError(
            f"{store.path(version)}: this board does not continue version {before.version}, which is signed; "
            "it was not signed"
        )
    certificate = board.certificate or {}
    manifest = Manifest(
        run=signer.run,
        run_id=run_id,
        releases=len(certificate.get("releases", ())),
        ledger_head=certificate.get("ledger_head"),
        previous_manifest=None if previous is None else previous.digest,
        version=version,
        board_digest=board.digest,
        previous_digest=board.previous_digest,
        certificate_digest=certificate.get("digest"),
        protection=checked.protection,
        published=utc_text(signer.clock()),
        signed=utc_text(signer.clock()),
        expires=signer.expiry(),
        key_id=signer.key.id,
        file=_file(mirror, store.path(version).read_bytes()),
    )
    return signer.key.sign(manifest, checked)


def _file(mirror: Mirror, board_file: bytes) -> BoardFile:
    packed = pack(board_file)
    file = BoardFile(
        size=len(packed),
        sha256=hashlib.sha256(packed).hexdigest(),
        board_size=len(board_file),
        board_sha256=hashlib.sha256(board_file).hexdigest(),
    )
    if not mirror.file(file.sha256).exists():
        write_atomically(mirror.file(file.sha256), packed)
    return file


def _has_signed(keys: PinnedKey, signed: SignedManifest) -> bool:
    try:
        keys.open(signed)
    except FeedRefusedError:
        return False
    return True


_log = logging.getLogger(__name__)


class Publisher:
    """Looks at a folder of boards from time to time. A board that cannot be signed stops nothing that is served."""

    def __init__(self, mirror: Mirror, sign: Callable[[], object], *, poll_seconds: float = 1.0) -> None:
        """Make ready.

        Args:
            mirror: written by this publisher alone.
            sign: does ``publish_into`` there; it reads its key at each call, so that one that was replaced needs no
                restart.
            poll_seconds: between two looks.
        """
        self.problem: str | None = None
        """Why the last look failed; None where it did not."""
        self.waiting: str | None = None
        """Which boards wait for which witnesses; None where none does. The next round waits too."""
        self._mirror, self._sign = mirror, sign
        self._poll_seconds = poll_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="board-publisher", daemon=True)

    def start(self) -> None:
        """Sign what is there, then go on in the background.

        Raises:
            InputError, PrivacyError, OSError: what is there cannot be signed.
        """
        self._sign()
        self.waiting = self._mirror.waiting()
        self._thread.start()

    def close(self) -> None:
        """Stop; a board that is being signed is finished first."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            try:
                self._sign()
                self.problem, self.waiting = None, self._mirror.waiting()
            except (FedboardError, OSError) as error:
                if self.problem != str(error):
                    _log.warning("boards cannot be signed: %s", error)
                self.problem = str(error)
