"""Signed notes (c2sp.org/signed-note): a text, and lines that say who signed it.

A key has a name and, of its public half, an id of four bytes; both stand in each line, so that a reader finds the
lines of the keys that she knows, and leaves the others alone. The kinds of keys here are those of Ed25519.
"""

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from fedboard.common.keys.ed25519_keys import has_signed

MAX_NOTE_BYTES = 1 << 16
MAX_SIGNATURES = 64
ID_BYTES = 4
_KEY_BYTES = 32
_LINE = "\N{EM DASH} "
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\ud800-\udfff]")
_NAME = re.compile(r"[^\s+]{1,255}")


class NoteError(ValueError):
    """Something is no note, no key or no proof in the form that the specification gives it."""


class Kind(IntEnum):
    """What a key signs."""

    NOTE = 0x01
    """The text as it is: a log's checkpoint."""
    COSIGNATURE = 0x04
    """The text with a time: a witness's word (``cosignature/v1``)."""


_KINDS = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with its name."""

    name: str
    kind: Kind
    raw: bytes
    """32 bytes."""

    def __post_init__(self) -> None:
        """Check the form.

        Raises:
            NoteError: no name for a key, or no key.
        """
        if not is_key_name(self.name) or len(self.raw) != _KEY_BYTES:
            raise NoteError("no name of a key, or no Ed25519 key")

    @property
    def id(self) -> bytes:
        """Four bytes that stand before its signatures."""
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.raw
        return hashlib.sha256(named).digest()[:ID_BYTES]

    def __str__(self) -> str:
        """As people hand it on: ``name+id+key``."""
        return f"{self.name}+{self.id.hex()}+{text_of(bytes([self.kind]) + self.raw)}"

    @classmethod
    def parse(cls, text: str, *, kind: Kind) -> "VerifierKey":
        """Read what ``str`` gives.

        Args:
            text: the key.
            kind: that it must be of.

        Raises:
            NoteError: it is none, of another kind, or its id is that of another key.
        """
        parts = text.strip().split("+", 2)
        try:
            name, stated, content = parts
            raw = bytes_of(content)
            key = cls(name, Kind(raw[0]), raw[1:]) if raw[0] in _KINDS else None
        except (ValueError, IndexError) as error:
            raise NoteError("not a key of the form name+id+base64") from error
        if key is None:
            raise NoteError(
                f"a key of type {raw[0]:#04x} is not read here (0x06 is ML-DSA-44); Ed25519 keys are, of type "
                f"{Kind.NOTE.value:#04x} (a log's) and {Kind.COSIGNATURE.value:#04x} (a witness's)"
            )
        if key.kind is not kind:
            wanted = "a witness's" if kind is Kind.COSIGNATURE else "a log's"
            raise NoteError(f"{name}: this is not {wanted} key, which is of type {kind.value:#04x}")
        if key.id.hex() != stated:
            raise NoteError(f"{name}: the id of this key is {key.id.hex()}, not {stated[:8]}")
        return key

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether 64 bytes are this key's signature of a message."""
        return has_signed(self.raw, signature, message)


@dataclass(frozen=True, slots=True)
class Signature:
    """One line below a note."""

    name: str
    id: bytes
    content: bytes

    @property
    def line(self) -> str:
        """As it stands there, without the newline."""
        return f"{_LINE}{self.name} {text_of(self.id + self.content)}"

    @classmethod
    def parse(cls, line: str) -> "Signature":
        """Read a line.

        Raises:
            NoteError: it is none.
        """
        name, space, content = line.removeprefix(_LINE).partition(" ")
        raw = bytes_of(content)
        if not line.startswith(_LINE) or not space or not is_key_name(name) or len(raw) <= ID_BYTES:
            raise NoteError("not a line of a signature")
        return cls(name, raw[:ID_BYTES], raw[ID_BYTES:])

    def is_of(self, key: VerifierKey) -> bool:
        """Whether it says that this key made it."""
        return (self.name, self.id) == (key.name, key.id)


@dataclass(frozen=True, slots=True)
class Note:
    """A text that ends in a newline, with its signatures, none of them verified."""

    text: str
    signatures: tuple[Signature, ...] = ()

    def to_bytes(self) -> bytes:
        """The note."""
        return "".join([self.text, "\n", *(f"{one.line}\n" for one in self.signatures)]).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Note":
        """Read a note.

        Raises:
            NoteError: it is none, or longer than anybody takes.
        """
        if len(content) > MAX_NOTE_BYTES:
            raise NoteError("a note of too many bytes")
        text, between, signed = plain_text(content).rpartition("\n\n")
        lines = signatures_of(signed)
        if not between or not lines or not text:
            raise NoteError("not a signed note")
        return cls(f"{text}\n", lines)

    def signed_by(self, key: VerifierKey) -> bool:
        """Whether a key of kind ``NOTE`` signed it.

        Raises:
            NoteError: a line says so, and its signature is not the key's.
        """
        lines = [one for one in self.signatures if one.is_of(key)]
        if not all(key.verifies(one.content, self.text.encode()) for one in lines):
            raise NoteError("a signature that is not its key's")
        return bool(lines)

    def with_signatures(self, more: Iterable[Signature]) -> "Note":
        """The same text with more lines; a later one of a key takes the place of an earlier one."""
        lines = {(one.name, one.id): one for one in (*self.signatures, *more)}
        return replace(self, signatures=tuple(lines.values()))


def signatures_of(text: str) -> tuple[Signature, ...]:
    """The lines of signatures, each with its newline.

    Raises:
        NoteError: anything else is there, or too many.
    """
    if text and not text.endswith("\n"):
        raise NoteError("a line of a signature is cut short")
    lines = text.split("\n")[:-1]
    if len(lines) > MAX_SIGNATURES:
        raise NoteError("a note with too many signatures")
    return tuple(map(Signature.parse, lines))


def plain_text(content: bytes) -> str:
    """Text of bytes: UTF-8 without control characters but newlines.

    Raises:
        NoteError: they are something else.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise NoteError("not text") from error
    if _CONTROL.search(text):
        raise NoteError("a text with control characters")
    return text


def is_key_name(text: str) -> bool:
    """Whether this can name a key."""
    return _NAME.fullmatch(text) is not None and not _CONTROL.search(text)


def text_of(content: bytes) -> str:
    """Bytes in base64."""
    return b64encode(content).decode()


def bytes_of(text: str) -> bytes:
    """Bytes of base64 in its one form.

    Raises:
        NoteError: it is none.
    """
    try:
        content = b64decode(text, validate=True)
    except ValueError as error:
        raise NoteError("not base64") from error
    if text_of(content) != text:
        raise NoteError("base64 in another form than its own")
    return content
