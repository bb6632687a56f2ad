"""Shares of a round between two servers: where each number goes, what each gets of a client and adds up."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray, ResidueArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource, numbers_of
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseStream
from fedboard.common.protocols.sums.residues import Packing, coarse_rows
from fedboard.common.protocols.two_server.bins import (
    RESIDUES_PER_BLOCK,
    SEED_BYTES,
    Bins,
    Domain,
    expanded,
)
from fedboard.common.protocols.two_server.point_functions import (
    Corrections,
    generate,
    leaf_blocks,
    most_bytes,
    rows_of,
)

_LEADER, _HELPER = 0, 1


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the numbers of a round's sums are: per-item ones in bins, all others in one vector. Public."""

    about: bytes
    """The round."""
    packing: Packing
    most_items: int

    def __post_init__(self) -> None:
        """Check that these requests can be carried.

        Raises:
            InputError: sums over pairs of items, or of different catalogues.
        """
        for request in self.packing.requests:
            if request.source is SumSource.ITEM_PAIRS:
                raise InputError(
                    f"release {request.name!r} sums over pairs of items, and a user's pairs are no few blocks of "
                    "numbers; use protocol 'trusted' or 'secure-sum'"
                )
            if request.source.per_item and request.release.rows != self.n_items:
                raise InputError(
                    f"release {request.name!r} has {request.release.rows} rows and another one {self.n_items}; all "
                    "sums per item are over one catalogue"
                )

    @cached_property
    def per_item(self) -> tuple[Request, ...]:
        """Requests with a row for each item, whose numbers stand side by side."""
        return tuple(request for request in self.packing.requests if request.source.per_item)

    @property
    def n_items(self) -> int:
        """Rows of the per-item requests; 0 where there are none."""
        return self.per_item[0].release.rows if self.per_item else 0

    @cached_property
    def others(self) -> tuple[Request, ...]:
        """All other requests."""
        return tuple(request for request in self.packing.requests if not request.source.per_item)

    @property
    def n_others(self) -> int:
        """How many numbers these have."""
        return numbers_of(self.others)

    @cached_property
    def bins(self) -> Bins:
        """Of the items."""
        return Bins.of(self.about, n_items=self.n_items, most_items=self.most_items)

    @cached_property
    def domain(self) -> Domain:
        """Of one bin's key."""
        return self.bins.domain(sum(request.release.width for request in self.per_item))

    @property
    def most_bytes(self) -> int:
        """Most bytes of one user's keys."""
        return most_bytes(self.domain, self.bins.n_bins) if self.per_item else 0

    def vector(self, items: ResidueArray, others: ResidueArray) -> ResidueArray:
        """All numbers in the order of the packing; uint32, shape (size,)."""
        found: dict[str, IntArray] = {}
        start = 0
        for request in self.per_item:
            found[request.name] = items[:, start : start + request.release.width].astype(np.int64)
            start += request.release.width
        start = 0
        for request in self.others:
            rows, width = request.release.rows, request.release.width
            found[request.name] = others[start : start + rows * width].reshape(rows, width).astype(np.int64)
            start += rows * width
        return self.packing.flatten(found)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Split:
    """What one client gives, shared between the two servers. Private as a whole."""

    keys: NDArray[np.uint8]
    """uint8, shape (n_users, bytes of one user's keys): for both servers."""
    seeds: tuple[bytes, bytes]
    """16 bytes for each server."""
    others: ResidueArray
    """uint32: the leader's share of all numbers that are not per item; the helper's follows from its seed."""


def split(contribution: Contribution, layout: Layout) -> Split:
    """Share the rows of one client.

    Each user sends as many keys as anybody else. Of a user with more than ``most_items`` items those of smallest
    weight are left out, which keeps every bound; so is an item that finds no bin (``Bins.assign``).

    Args:
        contribution: private.
        layout: public.

    Raises:
        InputError: the rows do not fit the requests.
        PrivacyError: a row breaks a bound.
    """
    rows = coarse_rows(contribution, layout.packing.requests, layout.packing.shifts)
    seeds = os.urandom(SEED_BYTES), os.urandom(SEED_BYTES)
    totals = [rows.totals[request.name].sum(axis=0) for request in layout.others]
    others = np.concatenate([np.zeros(0, dtype=np.int64), *totals]).astype(np.uint32)
    others -= _mask(seeds[_HELPER], others.size)
    keys = np.zeros((contribution.n_users, 0), dtype=np.uint8)
    if layout.per_item:
        each = (
            slice(*bounds) for bounds in zip(contribution.indptr[:-1], contribution.indptr[1:], strict=True)
        )
        found = [
            _user_keys(contribution, part, rows.entries[part], layout, _of_user(seeds, user))
            for user, part in enumerate(each)
        ]
        keys = np.stack(found) if found else keys
    return Split(keys=keys, seeds=seeds, others=others)


def kept_entries(contribution: Contribution, part: slice, layout: Layout) -> tuple[IntArray, IntArray]:
    """Which entries of one user are sent: their places within ``part``, and the bin of each. Private.

    The ``most_items`` of largest weight, equal ones as if at random, but for those that find no bin.
    """
    assert contribution.weights is not None  # checked against the requests
    items = contribution.items[part].astype(np.int64)
    heaviest = _heaviest(contribution.weights[part], items, layout)
    found = layout.bins.assign(items[heaviest])
    placed = found >= 0
    return heaviest[placed], found[placed]


def digest_of(keys: NDArray[np.uint8]) -> bytes:
    """SHA-256 of what both servers get, so that they get the same."""
    return hashlib.sha256(b"%d %d\n" % keys.shape + keys.tobytes()).digest()


class ShareSums:
    """One server's shares of the sums over all clients so far.

    Holds, for each of the about three times ``n_items`` rows of the bins, the numbers of all per-item requests (4
    bytes each), and a few MiB besides.
    """

    def __init__(self, layout: Layout, *, party: int) -> None:
        """Nothing yet.

        Args:
            layout: of the round.
            party: 0 for the leader, 1 for the helper.
        """
        self._layout, self._party = layout, party
        self._others = np.zeros(layout.n_others, dtype=np.uint32)
        shape = (0, 0, 0, RESIDUES_PER_BLOCK)
        if layout.per_item:
            domain = layout.domain
            shape = (domain.leaf_blocks, domain.n_leaves, layout.bins.n_bins, RESIDUES_PER_BLOCK)
        self._leaves = np.zeros(shape, dtype=np.uint32)

    def read(self, keys: NDArray[Any]) -> tuple[Corrections, ...]:
        """Each user's keys.

        Args:
            keys: from a client that need not be honest.

        Raises:
            RefusedError: not keys of this round's form.
        """
        if keys.dtype != np.uint8 or keys.ndim != 2:
            raise RefusedError(Refusal.MALFORMED)
        if not self._layout.per_item:
            if keys.shape[1]:
                raise RefusedError(Refusal.MALFORMED)
            return ()
        domain, n_keys = self._layout.domain, self._layout.bins.n_bins
        return tuple(Corrections.from_bytes(row.data, domain, n_keys=n_keys) for row in keys)

    def add(self, keys: Sequence[Corrections], seed: bytes, others: ResidueArray | None = None) -> None:
        """Add one client.

        Args:
            keys: as ``read`` gave them.
            seed: this server's own. Secret.
            others: the leader's share of the numbers that are not per item; the helper's is that of its seed.
        """
        self._others += _mask(seed, self._others.size) if others is None else others
        for user, corrections in enumerate(keys):
            own = _user_seed(seed, user)
            for part, block, numbers in leaf_blocks(corrections, own, self._layout.domain, party=self._party):
                self._leaves[block, part] += numbers

    def vector(self) -> ResidueArray:
        """Its share of all numbers, in the order of the packing; uint32, shape (size,)."""
        layout = self._layout
        items = np.zeros((layout.n_items, 0), dtype=np.uint32)
        if layout.per_item:
            items = layout.bins.by_item(rows_of(self._leaves, layout.domain, party=self._party))
        return layout.vector(items, self._others)


def _user_keys(
    contribution: Contribution, part: slice, numbers: IntArray, layout: Layout, seeds: tuple[bytes, bytes]
) -> NDArray[np.uint8]:
    bins, domain = layout.bins, layout.domain
    points = np.zeros(bins.n_bins, dtype=np.int64)  # an empty bin's key is one of zero, anywhere
    values = np.zeros((bins.n_bins, domain.width), dtype=np.uint32)
    places, own = kept_entries(contribution, part, layout)
    items = contribution.items[part][places].astype(np.int64)
    points[own] = bins.rows(items, own)
    values[own] = numbers[places].astype(np.uint32)
    content = generate(points, values, domain, seeds=seeds).to_bytes()
    return np.frombuffer(content, dtype=np.uint8)


def _heaviest(weights: ShortArray, items: IntArray, layout: Layout) -> IntArray:
    """The entries that are sent, heaviest first. Among equal ones an order decides that follows from all her items,
    so that no item is favoured by its number and the same rows are always cut in the same way.
    """
    key = hashlib.sha256(b"fedboard items sent 1\0" + layout.about + b"\0" + items.tobytes()).digest()
    drawn = NoiseStream(key=key).bits(0, items.size)
    return np.lexsort((drawn, -weights.astype(np.int64)))[: layout.most_items]


def _of_user(seeds: tuple[bytes, bytes], user: int) -> tuple[bytes, bytes]:
    return _user_seed(seeds[_LEADER], user), _user_seed(seeds[_HELPER], user)


def _user_seed(seed: bytes, user: int) -> bytes:
    return expanded(seed, b"user %d" % user, SEED_BYTES // 8).tobytes()


def _mask(seed: bytes, count: int) -> ResidueArray:
    return expanded(seed, b"numbers", -(-count // 2)).view(np.uint32)[:count]
