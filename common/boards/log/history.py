"""All that a log has said, and the rules that an honest one keeps: one run, one board for a version, one ledger
that only grows.

A tree that only grows can still hold two boards for one version, and witnesses, who see no entries, would cosign
it. So whoever relies on a log reads all of it: an entry takes 340 bytes, less than a certificate has for one
release.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fedboard.common.boards.log.entries import (
    BoardEntry,
    entries_of,
    ledger_of,
    prefix_digests,
    written,
)
from fedboard.common.boards.log.merkle import root_of


class HistoryError(ValueError):
    """A log does not keep its rules: whoever writes it lies, or lost a file. The sentence says which rule."""


@dataclass(frozen=True, slots=True)
class History:
    """The entries of a log from its beginning on. Public.

    Guarantee: they are of one run; each version has one board with one state of its ledger; and the ledger of a
    later version is at least as long, and the same one where it is as long.
    """

    entries: tuple[BoardEntry, ...] = ()
    _first: dict[int, BoardEntry] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hold them against the rules.

        Raises:
            HistoryError: they break one.
        """
        for entry in self.entries:
            self._add(entry)
        in_order = [self._first[version] for version in sorted(self._first)]
        for before, after in pairwise(in_order):
            _require_continued(before, after)

    def _add(self, entry: BoardEntry) -> None:
        if entry.run != self.entries[0].run:
            raise HistoryError("it holds the boards of two runs; a log is of one run")
        known = self._first.setdefault(entry.version, entry)
        if known.of_board != entry.of_board:
            raise HistoryError(f"it holds two boards for version {entry.version}")

    @classmethod
    def parse(cls, text: str) -> "History":
        """Read entries as ``text`` writes them.

        Raises:
            NoteError: they cannot be read.
            HistoryError: they break a rule.
        """
        return cls(entries_of(text))

    @property
    def text(self) -> str:
        """All entries."""
        return written(self.entries)

    @property
    def leaves(self) -> list[bytes]:
        """Their hashes."""
        return [entry.leaf for entry in self.entries]

    @property
    def run(self) -> str | None:
        """The run; None where nothing was said yet."""
        return self.entries[0].run if self.entries else None

    def root(self, size: int) -> bytes:
        """The root of the first so many.

        Raises:
            ValueError: there are fewer.
        """
        if size > len(self.entries):
            raise ValueError(f"size must be at most {len(self.entries)}, got {size}")
        return root_of([entry.leaf for entry in self.entries[:size]])

    def index_of(self, manifest: str) -> int | None:
        """Where a manifest stands, by the SHA-256 of its bytes; None where it was never logged."""
        places = (place for place, entry in enumerate(self.entries) if entry.manifest == manifest)
        return next(places, None)

    def of_version(self, version: int) -> BoardEntry | None:
        """The first entry of a version."""
        return self._first.get(version)

    def with_entry(self, entry: BoardEntry) -> "History":
        """One more at the end.

        Raises:
            HistoryError: it breaks a rule.
        """
        return History((*self.entries, entry))

    def require_ledger(self, version: int, certificate: Mapping[str, Any] | None) -> None:
        """Hold the certificate of a board against all that was said of it and of the boards before.

        Args:
            version: of the board.
            certificate: its own.

        Raises:
            NoteError: it is none.
            HistoryError: it is not the one that was logged, or the releases of an earlier board do not begin its
                list: the ledger was rolled back or rewritten.
        """
        releases, head = ledger_of(certificate)
        logged = self._first.get(version)
        if logged is None or (logged.ledger_rows, logged.ledger_head) != (len(releases), head):
            raise HistoryError(
                f"version {version} was logged with another ledger than its certificate states"
            )
        digests = prefix_digests(releases)
        for entry in self._first.values():
            if entry.version <= version and digests[entry.ledger_rows] != entry.releases:
                raise HistoryError(
                    f"the ledger of version {version} does not continue that of version {entry.version}; it was "
                    "rolled back or rewritten"
                )


def _require_continued(before: BoardEntry, after: BoardEntry) -> None:
    if after.ledger_rows < before.ledger_rows:
        raise HistoryError(
            f"the ledger of version {after.version} is shorter than that of version {before.version}; it was "
            "rolled back"
        )
    same_length = after.ledger_rows == before.ledger_rows
    if same_length and (after.ledger_head, after.releases) != (before.ledger_head, before.releases):
        raise HistoryError(
            f"the ledger of version {after.version} is as long as that of version {before.version}, and another one"
        )
