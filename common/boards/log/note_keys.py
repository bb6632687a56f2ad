"""Private keys of logs and witnesses, in files of one line, ``PRIVATE+KEY+name+id+key``, as Go's sumdb/note writes
them. The public half is a line too, a verifier key.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.log.checkpoints import cosigned_message, timestamped
from fedboard.common.boards.log.notes import (
    Kind,
    NoteError,
    Signature,
    VerifierKey,
    bytes_of,
    is_key_name,
    text_of,
)
from fedboard.common.errors import InputError
from fedboard.common.keys.ed25519_keys import write_new

_PRIVATE = "PRIVATE+KEY+"
_MADE_BY = {
    Kind.NOTE: "of a log; make one with: fedboard keys log",
    Kind.COSIGNATURE: "of a witness; make one with: fedboard keys witness",
}


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A private key with its name."""

    public: VerifierKey
    _key: Ed25519PrivateKey

    @classmethod
    def generate(cls, name: str, kind: Kind) -> "NoteKey":
        """A fresh key.

        Raises:
            InputError: the name cannot be one.
        """
        if not is_key_name(name):
            raise InputError(
                f"the name of a key is 1 to 255 characters without spaces and '+', such as "
                f"boards.example.org/films; got {name!r}"
            )
        return cls._of(name, kind, Ed25519PrivateKey.generate())

    @classmethod
    def parse(cls, text: str, *, kind: Kind) -> "NoteKey":
        """Read what ``text`` gives.

        Raises:
            NoteError: it is no key, or of another kind.
        """
        name, _, rest = text.strip().removeprefix(_PRIVATE).partition("+")
        stated, _, content = rest.partition("+")
        raw = bytes_of(content)
        if not text.startswith(_PRIVATE) or not raw or raw[0] != kind:
            raise NoteError("not a private key of this kind")
        try:
            key = cls._of(name, kind, Ed25519PrivateKey.from_private_bytes(raw[1:]))
        except ValueError as error:
            raise NoteError("not an Ed25519 key") from error
        if key.public.id.hex() != stated:
            raise NoteError("a key whose id is another one's")
        return key

    @classmethod
    def read(cls, path: Path, *, kind: Kind) -> "NoteKey":
        """Read a file that only its owner can read.

        Raises:
            InputError: no key of this kind there, or others can read it.
        """
        try:
            text, shared = path.read_text(encoding="utf-8"), path.stat().st_mode & 0o077
            key = cls.parse(text, kind=kind)
        except OSError as error:
            raise InputError(f"{path}: no private key can be read there ({error.strerror})") from error
        except ValueError as error:
            raise InputError(f"{path}: this is no private key {_MADE_BY[kind]}") from error
        if shared:
            raise InputError(f"{path}: others can read this key; take their rights away: chmod 600 {path}")
        return key

    def write(self, private: Path, public: Path) -> None:
        """Write two new files, the private one readable by its owner alone.

        Raises:
            InputError: one of them is there already; a key is never overwritten.
        """
        write_new(
            secret={private: f"{self.text}\n".encode()},
            public={public: f"{self.public}\n".encode()},
        )

    @property
    def text(self) -> str:
        """The private key. Secret."""
        content = text_of(bytes([self.public.kind]) + self._key.private_bytes_raw())
        return f"{_PRIVATE}{self.public.name}+{self.public.id.hex()}+{content}"

    def sign(self, text: str) -> Signature:
        """A log's signature of a checkpoint's text."""
        assert self.public.kind is Kind.NOTE, "a witness cosigns"
        return Signature(self.public.name, self.public.id, self._key.sign(text.encode()))

    def cosign(self, text: str, *, seconds: int | None = None) -> Signature:
        """A witness's signature of a checkpoint's text, at a time: now, if none is given."""
        assert self.public.kind is Kind.COSIGNATURE, "a log signs"
        at = int(time.time()) if seconds is None else seconds
        return timestamped(self.public, at, self._key.sign(cosigned_message(text, at)))

    @classmethod
    def _of(cls, name: str, kind: Kind, key: Ed25519PrivateKey) -> "NoteKey":
        return cls(VerifierKey(name, kind, key.public_key().public_bytes_raw()), key)


def read_verifier(place: str, *, kind: Kind) -> VerifierKey:
    """Read a verifier key, or the file that holds one.

    Raises:
        InputError: it is none, or of another kind.
    """
    text, path = place, Path(place)
    try:
        if "+" not in place or path.is_file():
            text = path.read_text(encoding="utf-8")
        return VerifierKey.parse(text, kind=kind)
    except OSError as error:
        raise InputError(f"{place}: no key can be read there ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{place}: this is no public key {_MADE_BY[kind]} ({error})") from error
