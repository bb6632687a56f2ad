"""Exact sums that grow message by message, whatever form the messages have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums, FactoredSums
from fedboard.common.protocols.sums.row_bounds import rows_to_sum
from fedboard.common.protocols.sums.stacking import joined

_MOST_ENTRIES = 1 << 26
"""Rows with more ratings than this are summed before more are taken."""


@dataclass(slots=True, kw_only=True)
class RunningSums:
    """The sums of all messages so far.

    Sums of cohorts are added at once. Rows are held, about 8 bytes per rating and 2 rank bytes per user, because
    their sums are formed block by block of items; beyond 67 million ratings (about 0.6 GB) they are summed and
    forgotten.
    """

    requests: tuple[Request, ...]
    backend: str = "numpy"
    rejected_rows: int = 0
    _dense: DenseSums | None = None
    _rows: list[Contribution] = field(default_factory=list)
    _entries: int = 0

    def add_sums(self, sums: Mapping[str, IntArray]) -> None:
        """Add the sums of a cohort.

        Raises:
            InputError: they do not have the shapes that were asked for.
        """
        before = () if self._dense is None else (self._dense.sums,)
        self._dense = DenseSums.total((*before, sums), self.requests)

    def add_rows(self, contribution: Contribution) -> None:
        """Add the rows that keep their bounds; count the others."""
        kept = rows_to_sum(contribution, self.requests)
        self.rejected_rows += contribution.n_users - (0 if kept is None else kept.n_users)
        if kept is None or not kept.n_users:
            return
        self._rows.append(kept)
        self._entries += kept.items.size
        if self._entries > _MOST_ENTRIES:
            self._dense = DenseSums.total_of(self._members(), self.requests)
            self._rows, self._entries = [], 0

    def sums(self) -> ExactSums:
        """All of it."""
        members = self._members()
        if len(members) == 1:
            return replace(members[0], rejected_rows=self.rejected_rows)
        return replace(DenseSums.total_of(members, self.requests), rejected_rows=self.rejected_rows)

    def _members(self) -> list[DenseSums | FactoredSums]:
        members: list[DenseSums | FactoredSums] = [] if self._dense is None else [self._dense]
        if self._rows:
            members.append(FactoredSums.of(joined(self._rows), backend=self.backend))
        return members
