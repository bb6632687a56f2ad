"""The manifest of a published board: what it is, what came before it, and which files carry it.

A manifest is JSON, signed as bytes (``board_signature``). It says until when it may be taken for the newest one:
whoever publishes signs it again before that (``renewal``), so a reader who is shown an old board for ever notices.
"""

import hashlib
import time
from enum import StrEnum

import msgspec

from fedboard.common.board_service.refusals import FeedCode, FeedRefusedError
from fedboard.common.keys.validity import Clock, is_current, is_utc_text
from fedboard.common.protection import Protection

FORMAT = "fedboard-manifest-3"
_MOST_VERSIONS = 1 << 31
_HEX = frozenset("0123456789abcdef")


class Encoding(StrEnum):
    """How a board file travels."""

    EXACT = "exact"
    """The file as it was published."""
    PACKED = "packed"
    """Compressed; becomes the exact file, byte for byte."""
    FLOAT16 = "float16"
    """Factors as 16-bit floating point numbers, compressed."""
    INT8 = "int8"
    """Factors as 8-bit integers with a scale for each item, compressed."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is read strictly: no missing, unknown or wrongly typed field."""


class Deviation(Record, frozen=True, kw_only=True):
    """How far an approximate board is from the exact one. Public: computed from published boards alone."""

    factors_absolute: float
    """Largest absolute difference of one number of a matrix, in its unit."""
    factors_relative: float
    """Largest distance between the two vectors of an item, over the length of the exact one."""
    predictions_largest: float | None = None
    """Largest absolute difference of predictions for made-up users, in stars or the score's unit."""
    predictions_rms: float | None = None
    """Its root mean square."""
    top20_overlap: float | None = None
    """Mean share of the exact twenty best items of a made-up user that the approximate board gives too."""


class BoardFile(Record, frozen=True, kw_only=True):
    """One file that carries the board."""

    encoding: Encoding
    size: int
    """Bytes."""
    sha256: str
    bases: tuple[int, ...] = ()
    """Empty: the file is complete. Else it leaves out what a board of any of these versions holds too."""
    board_size: int
    """Bytes of the board file that it becomes."""
    board_sha256: str
    """SHA-256 of the board file that it becomes."""
    board_digest: str
    """``Board.digest`` of what it becomes: the exact board's, or that of an approximation."""
    deviation: Deviation | None = None
    """None for the exact board."""


class Manifest(Record, frozen=True, kw_only=True):
    """What is signed about one board."""

    format: str = FORMAT
    run: str
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
    files: tuple[BoardFile, ...]

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
        optional = [
            digest for digest in (self.previous_digest, self.certificate_digest) if digest is not None
        ]
        digests, sizes = [self.board_digest, *optional], [1]
        for file in self.files:
            digests += [file.sha256, file.board_sha256, file.board_digest]
            sizes += [file.size, file.board_size]
        return (
            self.format == FORMAT
            and self.protection is not Protection.UNSTATED
            and 0 <= self.version < _MOST_VERSIONS
            and is_utc_text(self.signed)
            and is_utc_text(self.expires)
            and 0 <= self.renewal < _MOST_VERSIONS
            and min(sizes) > 0
            and all(is_sha256(digest) for digest in digests)
        )

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

    def file(self, encoding: Encoding, base: int | None = None) -> BoardFile | None:
        """The smallest file in this encoding for a reader who has a board of version ``base``, if there is one."""
        fitting = [
            file
            for file in self.files
            if file.encoding is encoding and (not file.bases or base in file.bases)
        ]
        return min(fitting, key=lambda file: file.size, default=None)


def is_sha256(text: str) -> bool:
    """Whether this is a SHA-256 in hexadecimal, and so nothing else, such as a path."""
    return len(text) == hashlib.sha256().digest_size * 2 and set(text) <= _HEX
