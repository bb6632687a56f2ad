"""The manifest of a published board: what it is, what came before it, and which files carry it.

A manifest is JSON, signed as bytes (``board_signature``). It says until when it may be taken for the newest one:
whoever publishes signs it again before that (``renewal``), so a reader who is shown an old board for ever notices.
Each names the manifest before it, renewals included, so that all of a run are one chain (``chain``).

How the manifests of a run follow each other, and when two of them contradict each other.

All manifests of a run are one chain: each names the one before it by the SHA-256 of its content. A version has one
board; a renewal says the same of it again; and the ledger only grows. Readers, witnesses and whoever publishes hold
a chain to the same rules.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.validity import Clock, is_current, is_utc_text
from fedboard.common.protection import Protection

FORMAT = "fedboard-manifest-5"
MAX_MANIFEST_BYTES = 1 << 18
"""Most bytes of a manifest that a reader takes."""
_MOST_VERSIONS = 1 << 31
_HEX = frozenset("0123456789abcdef")
MOST_NAME = 256
"""Most characters of a run's name."""
RUN_ID_DIGITS = 32


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is read strictly: no missing, unknown or wrongly typed field."""


class BoardFile(Record, frozen=True, kw_only=True):
    """The file that carries the board, packed (``packing``)."""

    size: int
    """Bytes."""
    sha256: str
    board_size: int
    """Bytes of the board file that it becomes."""
    board_sha256: str
    """SHA-256 of the board file that it becomes."""


class Manifest(Record, frozen=True, kw_only=True):
    """What is signed about one board."""

    format: str = FORMAT
    run: str
    """Public name of the run."""
    run_id: str
    """Of the run's ledger: 32 hexadecimal digits."""
    releases: int
    """How many the ledger had booked, as the board's certificate lists them."""
    ledger_head: str | None
    """Hash of the ledger's last row, as the certificate states it."""
    previous_manifest: str | None
    """SHA-256 of the content of the manifest before this one; None for the first."""
    version: int
    board_digest: str
    previous_digest: str | None
    certificate_digest: str | None
    protection: Protection
    """What its noise is, worked out by the signer from the releases; a reader works it out again."""
    published: str
    """When the board was published: UTC, ISO 8601, to the second."""
    signed: str
    """When this was signed, in the same form."""
    expires: str
    """Until when it may be taken for the newest, in the same form."""
    renewal: int = 0
    """How often the manifest of this version was signed again."""
    key_id: str
    """Of the key that it was made with, for people; what counts is whose signatures are on it."""
    file: BoardFile

    def to_bytes(self) -> bytes:
        """The bytes to sign."""
        return msgspec.json.encode(self, order="sorted")

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest":
        """Read a manifest strictly; whether it is signed is not looked at.

        Raises:
            FeedRefusedError: ``malformed``, also where it is of another format.
        """
        try:
            manifest = msgspec.json.decode(content, type=cls)
        except (msgspec.DecodeError, RecursionError) as error:
            raise FeedRefusedError(FeedCode.MALFORMED) from error
        if not manifest._sound():
            raise FeedRefusedError(FeedCode.MALFORMED)
        return manifest

    def _sound(self) -> bool:
        named = (self.previous_digest, self.certificate_digest, self.previous_manifest, self.ledger_head)
        digests = [self.board_digest, self.file.sha256, self.file.board_sha256]
        digests += [digest for digest in named if digest is not None]
        return (
            self.format == FORMAT
            and self.protection is not Protection.UNSTATED
            and 0 < len(self.run) <= MOST_NAME
            and len(self.run_id) == RUN_ID_DIGITS
            and set(self.run_id) <= _HEX
            and 0 <= self.version < _MOST_VERSIONS
            and 0 <= self.releases < _MOST_VERSIONS
            and is_utc_text(self.signed)
            and is_utc_text(self.expires)
            and 0 <= self.renewal < _MOST_VERSIONS
            and min(self.file.size, self.file.board_size) > 0
            and all(is_sha256(digest) for digest in digests)
        )

    @property
    def statement(self) -> tuple[object, ...]:
        """What all manifests of one version say, however often it is signed again."""
        ledger = self.run_id, self.releases, self.ledger_head
        board = self.board_digest, self.previous_digest, self.certificate_digest, self.protection
        return self.run, self.version, *ledger, *board

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of all manifests of a run: a reader goes back in it for nobody."""
        return self.version, self.renewal

    def is_current(self, clock: Clock = time.time) -> bool:
        """Whether it may be taken for the newest one now.

        Args:
            clock: of this machine; it may differ by ``CLOCK_SECONDS`` from the publisher's.
        """
        return is_current(signed=self.signed, expires=self.expires, clock=clock)


class Cosignature(Record, frozen=True, kw_only=True):
    """The signature of one witness; not verified yet."""

    key: str
    """Public, 32 bytes, hexadecimal."""
    signature: str
    """64 bytes, hexadecimal."""


class SignedManifest(Record, frozen=True, kw_only=True):
    """A manifest's bytes with their signatures, as they travel; not verified yet."""

    content: str
    signatures: tuple[str, ...]
    """64 bytes each, hexadecimal; several where a root asks for those of several keys."""
    cosignatures: tuple[Cosignature, ...] = ()
    """Of witnesses."""

    @property
    def digest(self) -> str:
        """By which the next manifest names it: SHA-256 of its content."""
        return digest_of(self.content)

    def to_bytes(self) -> bytes:
        """As JSON, for a file of a mirror."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> "SignedManifest":
        """Read what anybody may have written.

        Raises:
            FeedRefusedError: ``malformed`` or ``too-large``.
        """
        if len(content) > 2 * MAX_MANIFEST_BYTES:
            raise FeedRefusedError(FeedCode.TOO_LARGE)
        try:
            signed = msgspec.json.decode(content, type=cls)
            signed.content.encode()
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise FeedRefusedError(FeedCode.MALFORMED) from error
        return signed


def digest_of(content: bytes | str) -> str:
    """How a manifest is named: the SHA-256 of its content, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def is_sha256(text: str) -> bool:
    """Whether this is a SHA-256 in hexadecimal, and so nothing else, such as a path."""
    return len(text) == hashlib.sha256().digest_size * 2 and set(text) <= _HEX


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
