"""Whom a model is judged on, a block at a time: in memory or streamed, the same to whoever judges. Private."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.mixing import mix64
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import HeldOut, RatingSplit, Splitting, UserSplit
from fedboard.simulations.data.splits.coins import below
from fedboard.simulations.data.stream import UserStream
from fedboard.simulations.engine.spans import blocks_of, item_keys_of
from fedboard.simulations.problem import StreamedProblem

BLOCK_RATINGS = 1 << 19
"""Of a block, unless somebody says otherwise: lists of its users take as much again as what is read of them."""
_FEWEST_PER_SPAN, _MOST_PER_SPAN = 1 << 13, 1 << 18
_SPANS = 64
_ITEMS_PER_USER = 8
"""Of a job in memory at least: what it returns is of the size of the catalogue."""
_SECRET = np.uint64(int.from_bytes(blake2b(b"fedboard judged users", digest_size=8).digest(), "little"))
"""Other coins than those of any split."""

Split = RatingSplit | UserSplit


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldSpan:
    """Consecutive users whom one job judges, with what of their split that reads: of a split in memory."""

    split: Split
    """Of these users alone; rows are counted from the first of them."""
    start: int
    """Row of the first."""

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.split.train.n_items

    def blocks(self) -> Iterator[Split]:
        """All of them at once."""
        yield self.split


def held_spans(split: Split, part: str) -> list[HeldSpan]:
    """All users of a split in memory, so that each span has as many to judge."""
    users_per_span = max(_FEWEST_PER_SPAN, split.train.n_items // _ITEMS_PER_USER)
    held_out, n_users = held_out_of(split, part)[1], split.train.n_users
    cuts = [*range(0, max(n_users, 1), users_per_span), n_users]
    if isinstance(held_out, HeldOut):
        cuts = [0, *held_out.users[users_per_span::users_per_span].tolist(), n_users]
    return [
        HeldSpan(split=_read(_rows(split, start, stop), part), start=start) for start, stop in pairwise(cuts)
    ]


def _rows(split: Split, start: int, stop: int) -> Split:
    if isinstance(split, UserSplit):
        return UserSplit(
            train=split.train.rows(start, stop),
            validation=_some_users(split.validation, start, stop),
            test=_some_users(split.test, start, stop),
        )
    return RatingSplit(
        train=split.train.rows(start, stop),
        train_and_validation=split.train_and_validation.rows(start, stop),
        validation=_some_triples(split.validation, start, stop),
        test=_some_triples(split.test, start, stop),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBlocks:
    """A stream with its split: picklable and as small as the stream; memory is of one block, however many users."""

    stream: UserStream
    splitting: Splitting
    block_ratings: int = BLOCK_RATINGS
    """At most so many ratings are read at once, or one user's."""
    first_users: int | None = None
    """Only the first so many rows are judged; None: all."""
    share: float = 1.0
    """Probability that a user is judged, in (0, 1], by a coin of her key; the others keep their rows, without
    ratings."""

    @staticmethod
    def judged(problem: StreamedProblem, block_ratings: int = BLOCK_RATINGS) -> "StreamBlocks":
        """Whom a judgement is about: everybody, whom coins have drawn, or the first rows where the stream says that
        its rows are exchangeable, so that the others need not be made.
        """
        source = StreamBlocks(stream=problem.stream, splitting=problem.splitting, block_ratings=block_ratings)
        asked, of = problem.judged_users, source.n_users
        if asked is None or asked >= of:
            return source
        if getattr(problem.stream, "exchangeable", False):
            return replace(source, first_users=asked)
        return replace(source, share=asked / of)

    @property
    def n_users(self) -> int:
        """Rows are 0..n_users - 1."""
        return self.stream.n_users if self.first_users is None else self.first_users

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.stream.n_items

    def blocks(self, start: int, stop: int) -> Iterator[Split]:
        """The splits of users start:stop, as many at a time as memory allows, in the order of their rows; rows of
        each split are counted from its first.
        """
        keys = item_keys_of(self.stream)
        for block in blocks_of(self.stream, start, stop, self.block_ratings):
            chosen = block
            if self.share < 1.0:
                chosen = block.where(np.repeat(drawn(block.keys, self.share), block.counts))
            yield self.splitting.split(chosen, keys)

    def train(self, start: int, stop: int) -> Iterator[Cohort]:
        """What a board is learnt from of users start:stop, in the order of their rows."""
        keys = item_keys_of(self.stream)
        for block in blocks_of(self.stream, start, stop, self.block_ratings):
            yield self.splitting.train(block, keys)

    def spans(self) -> "list[StreamSpan]":
        """All users, cut into jobs by how many there are alone, so that who computes never changes a number."""
        return [StreamSpan(source=self, start=a, stop=b) for a, b in span_bounds(self.n_users)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpan:
    """Consecutive users of a stream whom one job judges; small."""

    source: StreamBlocks
    start: int
    stop: int

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.source.n_items

    def blocks(self) -> Iterator[Split]:
        """Their splits, block by block."""
        return self.source.blocks(self.start, self.stop)


Span: TypeAlias = HeldSpan | StreamSpan
"""What a job is sent."""


def span_bounds(n_users: int) -> list[tuple[int, int]]:
    """Users cut into jobs, by how many there are alone, so that who computes never changes a sum.

    Args:
        n_users: whose rows are 0..n_users - 1.

    Returns:
        (first, one past the last) of each; about ``_SPANS``, more where there are very many users.
    """
    users = min(max(n_users // _SPANS, _FEWEST_PER_SPAN), _MOST_PER_SPAN)
    return [(start, min(start + users, n_users)) for start in range(0, n_users, users)]


def drawn(user_keys: BitArray, share: float) -> BoolArray:
    """Which users are in a sample, bool; whoever else there is.

    Args:
        user_keys: as from ``fedboard.simulations.data.id_keys``. Private.
        share: probability of each.
    """
    return below(mix64(mix64(user_keys ^ _SECRET)), share)


def held_out_of(split: Split, part: str) -> tuple[Cohort, Triples | HeldOut]:
    """What users' vectors are solved on, and what is to be found of them.

    For validation they are solved on the training rows, for the test on training and validation rows.
    """
    if isinstance(split, UserSplit):
        held_out = split.validation if part == "validation" else split.test
        return held_out.history, held_out
    if part == "validation":
        return split.train, split.validation
    return split.train_and_validation, split.test


def n_held_out(split: Split, part: str) -> int:
    """How much there is to be found: ratings, or users with their lists. Private."""
    held_out = held_out_of(split, part)[1]
    return int(held_out.users.size)


def judged_users(split: Split, part: str) -> IndexArray:
    """Rows of ``held_out_of``'s history that have something held out, int32, ascending. Private."""
    history, held_out = held_out_of(split, part)
    if isinstance(held_out, HeldOut):
        return np.arange(history.n_users, dtype=np.int32)
    return np.unique(held_out.users)


def _read(split: Split, part: str) -> Split:
    """Without the rows that judging this part does not look at, so that they need not be sent."""
    history, held_out = held_out_of(split, part)
    if isinstance(split, UserSplit):
        assert isinstance(held_out, HeldOut)  # of a split over users
        return replace(split, train=_no_ratings(split.train), validation=held_out, test=held_out)
    assert isinstance(held_out, Triples)  # of a split over ratings
    return RatingSplit(train=history, train_and_validation=history, validation=held_out, test=held_out)


def _no_ratings(rows: Cohort) -> Cohort:
    return replace(rows, indptr=np.zeros_like(rows.indptr), items=rows.items[:0], ratings=rows.ratings[:0])


def _some_users(held_out: HeldOut, start: int, stop: int) -> HeldOut:
    first, last = (int(row) for row in np.searchsorted(held_out.users, [start, stop]))
    return HeldOut(
        users=held_out.users[first:last] - np.int32(start),
        history=held_out.history.rows(first, last),
        target=held_out.target.rows(first, last),
    )


def _some_triples(held_out: Triples, start: int, stop: int) -> Triples:
    first, last = (int(row) for row in np.searchsorted(held_out.users, [start, stop]))
    return Triples(
        users=held_out.users[first:last] - np.int32(start),
        items=held_out.items[first:last],
        values=held_out.values[first:last],
    )
