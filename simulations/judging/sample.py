"""Judging on some of the users alone, where there are very many. Who they are is drawn by coins of their keys."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray
from fedboard.common.cohort import Cohort
from fedboard.common.per_user.mixing import mix64
from fedboard.simulations.datasets import Triples
from fedboard.simulations.datasets.splits import HeldOut, RatingSplit
from fedboard.simulations.datasets.splits.coins import below
from fedboard.simulations.judging.split_blocks import Split, SplitBlocks

_SECRET = np.uint64(int.from_bytes(blake2b(b"fedboard judged users", digest_size=8).digest(), "little"))
"""Other coins than those of any split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBlocks:
    """Some of the users of another source: the others keep their rows, without ratings."""

    source: SplitBlocks
    share: float
    """Probability that a user is among them, in (0, 1]."""

    @property
    def n_users(self) -> int:
        """Rows of the source."""
        return self.source.n_users

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.source.n_items

    def blocks(self, start: int, stop: int) -> Iterator[Split]:
        """As of ``SplitBlocks``."""
        for split in self.source.blocks(start, stop):
            yield _of_users(split, drawn(split.train.keys, self.share))


def drawn(user_keys: BitArray, share: float) -> BoolArray:
    """Which users are in a sample, bool; whoever else there is.

    Args:
        user_keys: as from ``fedboard.simulations.datasets.id_keys``. Private.
        share: probability of each.
    """
    return below(mix64(mix64(user_keys ^ _SECRET)), share)


def _of_users(split: Split, chosen: BoolArray) -> Split:
    if isinstance(split, RatingSplit):
        return RatingSplit(
            train=_rows(split.train, chosen),
            train_and_validation=_rows(split.train_and_validation, chosen),
            validation=_triples(split.validation, chosen),
            test=_triples(split.test, chosen),
        )
    return replace(
        split,
        train=_rows(split.train, chosen),
        validation=_held_out(split.validation, chosen),
        test=_held_out(split.test, chosen),
    )


def _rows(cohort: Cohort, chosen: BoolArray) -> Cohort:
    return cohort.where(chosen[cohort.user_of_entry()])


def _triples(triples: Triples, chosen: BoolArray) -> Triples:
    own = chosen[triples.users]
    return Triples(users=triples.users[own], items=triples.items[own], values=triples.values[own])


def _held_out(held_out: HeldOut, chosen: BoolArray) -> HeldOut:
    own = chosen[held_out.users]
    return HeldOut(
        users=held_out.users[own],
        history=_without_other_rows(held_out.history, own),
        target=_without_other_rows(held_out.target, own),
    )


def _without_other_rows(cohort: Cohort, chosen: BoolArray) -> Cohort:
    entries = chosen[cohort.user_of_entry()]
    counts = cohort.counts[chosen]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=cohort.items[entries],
        ratings=cohort.ratings[entries],
        n_items=cohort.n_items,
        user_keys=None if cohort.user_keys is None else cohort.user_keys[chosen],
    )
