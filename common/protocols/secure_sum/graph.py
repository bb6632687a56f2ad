"""Who is who in one session of a secure sum, as the server knows it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray
from fedboard.common.protocols.secure_sum.masking.advertised import Advertised
from fedboard.common.protocols.secure_sum.masking.neighbours import Neighbourhood, neighbours, ring


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The clients that advertised keys, numbered in the order of their identities. Public to the server."""

    names: tuple[str, ...]
    """By number."""
    advertised: tuple[Advertised, ...]
    """By number."""
    joined: IndexArray
    """int32, shape (n, k): the numbers of each client's neighbours, ascending."""
    around: Neighbourhood

    @staticmethod
    def of(
        session: bytes,
        keys: Mapping[str, Advertised],
        around: Neighbourhood,
        identities: Mapping[str, bytes] | None = None,
    ) -> "Graph":
        """The ring of these clients.

        Args:
            session: 32 bytes that no other session has.
            keys: what each advertised; no two the same.
            around: the size of a neighbourhood.
            identities: by client, what the ring is made of; None for what follows from its keys. Where clients are
                vouched for it is the key of the list, so that each of them can make the ring itself.
        """
        members = sorted((advertised.identity, name) for name, advertised in keys.items())
        of_ring = {name: advertised.identity for name, advertised in keys.items()}
        of_ring = of_ring if identities is None else {name: identities[name] for name in keys}
        number = {of_ring[name]: place for place, (_, name) in enumerate(members)}
        joined = np.empty((len(members), around.size), dtype=np.int32)
        order = ring(session, list(of_ring.values()))
        for place, identity in enumerate(order):
            joined[number[identity]] = sorted(
                number[other] for other in neighbours(order, place, around.size)
            )
        names = tuple(name for _, name in members)
        advertised = tuple(keys[name] for name in names)
        return Graph(names=names, advertised=advertised, joined=joined, around=around)

    def place(self, of: int, among: int) -> int:
        """At which place of one client's neighbours another one stands."""
        return int(np.searchsorted(self.joined[among], of))

    def places(self, of: int) -> IndexArray:
        """At which place of each of its neighbours' neighbours a client stands; int32, shape (k,)."""
        return np.array([self.place(of, among) for among in self.joined[of]], dtype=np.int32)

    def well_joined(self, there: BoolArray) -> BoolArray:
        """Which of those who are there can go on: enough of their neighbours can, too.

        Args:
            there: bool, shape (n,).
        """
        while True:
            left: BoolArray = there & (there[self.joined].sum(axis=1) >= self.around.needed)
            if np.array_equal(left, there):
                return left
            there = left


@dataclass(frozen=True, slots=True)
class Messages(Mapping[str, bytes]):
    """One message for each client, made when it is asked for, so that they never exist all at once."""

    names: Mapping[str, int]
    make: Callable[[str], bytes]

    def __getitem__(self, name: str) -> bytes:
        """The message to one client."""
        if name not in self.names:
            raise KeyError(name)
        return self.make(name)

    def __iter__(self) -> Iterator[str]:
        """Who is asked."""
        return iter(self.names)

    def __len__(self) -> int:
        """How many are asked."""
        return len(self.names)
