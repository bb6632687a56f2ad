"""What the log says of one board: which it is, what was signed about it, and what its ledger held.

An entry is a text of seven lines, each a word and its values::

    fedboard-board-log-1
    run films
    version 4
    board <SHA-256 of the board>
    manifest <SHA-256 of the manifest's bytes, as they were signed>
    ledger 12 <hash of the ledger's last row>
    releases <SHA-256 of the canonical JSON of those 12 releases>

``ledger`` and ``releases`` are those of the board's certificate. With them whoever has a later board sees whether
the releases of each earlier one still begin its list: a ledger that was rolled back, or rewritten, does not fit.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedboard.common.boards.log.merkle import leaf_hash
from fedboard.common.boards.log.notes import NoteError
from fedboard.common.privacy.events import canonical_json, digest

ENTRY_FORMAT = "fedboard-board-log-1"
NO_LEDGER = "-"
_SHA256 = "([0-9a-f]{64})"
_NUMBER = "(0|[1-9][0-9]{0,9})"
_ENTRY = re.compile(
    rf"{ENTRY_FORMAT}\nrun ([^\n]{{1,256}})\nversion {_NUMBER}\nboard {_SHA256}\nmanifest {_SHA256}\n"
    rf"ledger {_NUMBER} ({NO_LEDGER}|[0-9a-f]{{64}})\nreleases {_SHA256}\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardEntry:
    """One leaf of the log. Public."""

    run: str
    version: int
    board: str
    """Digest of the exact board."""
    manifest: str
    """SHA-256 of the bytes that were signed, whatever is in them."""
    ledger_rows: int
    """How many releases the certificate lists."""
    ledger_head: str
    """What the certificate says of the ledger; ``-`` where it says nothing."""
    releases: str
    """SHA-256 of the canonical JSON of the releases."""

    @property
    def text(self) -> str:
        """The entry."""
        return (
            f"{ENTRY_FORMAT}\nrun {self.run}\nversion {self.version}\nboard {self.board}\n"
            f"manifest {self.manifest}\nledger {self.ledger_rows} {self.ledger_head}\nreleases {self.releases}\n"
        )

    @property
    def leaf(self) -> bytes:
        """Its hash in the tree."""
        return leaf_hash(self.text.encode())

    @property
    def of_board(self) -> tuple[str, int, str, str]:
        """What all entries of one version share; its manifest may be signed again, with another date or key."""
        return self.board, self.ledger_rows, self.ledger_head, self.releases

    @classmethod
    def parse(cls, text: str) -> "BoardEntry":
        """Read an entry.

        Raises:
            NoteError: it is none.
        """
        found = _ENTRY.fullmatch(text)
        if found is None:
            raise NoteError("not an entry of a log of boards")
        run, version, board, manifest, rows, head, releases = found.groups()
        return cls(
            run=run,
            version=int(version),
            board=board,
            manifest=manifest,
            ledger_rows=int(rows),
            ledger_head=head,
            releases=releases,
        )

    @classmethod
    def of(
        cls, content: bytes, *, run: str, version: int, board: str, certificate: Mapping[str, Any] | None
    ) -> "BoardEntry":
        """The entry of a board.

        Args:
            content: the manifest, as it was signed.
            run: that it names.
            version: of the board.
            board: its digest.
            certificate: its certificate; None where it has none.
        """
        releases, head = ledger_of(certificate)
        return cls.parse(
            cls(
                run=run,
                version=version,
                board=board,
                manifest=hashlib.sha256(content).hexdigest(),
                ledger_rows=len(releases),
                ledger_head=head,
                releases=releases_digest(releases),
            ).text
        )


def ledger_of(certificate: Mapping[str, Any] | None) -> tuple[Sequence[Any], str]:
    """The releases that a certificate lists, and the head of the ledger that it states.

    Raises:
        NoteError: they are not lists and texts.
    """
    stated = certificate or {}
    releases, head = stated.get("releases", ()), stated.get("ledger_head") or NO_LEDGER
    if not isinstance(releases, list | tuple) or not isinstance(head, str):
        raise NoteError("not a certificate")
    return releases, head


def releases_digest(releases: Sequence[Any]) -> str:
    """SHA-256 of the canonical JSON of a list of releases."""
    return digest(list(releases))


def prefix_digests(releases: Sequence[Any]) -> list[str]:
    """``releases_digest`` of the first 0, 1, ... and of all of them, each hashed once."""
    running, found = hashlib.sha256(b"["), [releases_digest(())]
    for place, release in enumerate(releases):
        running.update((b"," if place else b"") + canonical_json(release).encode())
        whole = running.copy()
        whole.update(b"]")
        found.append(whole.hexdigest())
    return found


def entries_of(text: str) -> tuple[BoardEntry, ...]:
    """The entries of a text in which an empty line stands behind each.

    Raises:
        NoteError: something else is in it.
    """
    *found, rest = text.split("\n\n")
    if rest:
        raise NoteError("a list of entries that is cut short")
    return tuple(BoardEntry.parse(f"{one}\n") for one in found)


def written(entries: Sequence[BoardEntry]) -> str:
    """The text that ``entries_of`` reads."""
    return "".join(f"{one.text}\n" for one in entries)
