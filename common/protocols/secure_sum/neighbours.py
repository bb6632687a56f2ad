"""Who shares masks with whom: a k-regular graph, k growing slowly with the number of clients.

Clients are put in an order that nobody chooses (a hash of the session and of every advertised key), as a ring, and
each is joined to the k / 2 next ones on either side. The order is a function of keys that are fixed before it is
known, so those who drop out and those who collude fall into a neighbourhood as balls drawn without replacement
(hypergeometric). Assumed: they do not depend on the order. A server that drops clients after it knows the order, or
that invents clients, is outside of what ``neighbourhood`` is computed for; ``vouched_neighbourhood`` is for it.
``Graph`` is what the server knows of one session: who is who.

Reference: Bell, Bonawitz, Gascon, Lepoint and Raykova (2020), doi:10.1145/3372297.3417885, sections 3 and 4.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lgamma, log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray
from fedboard.common.errors import InputError
from fedboard.common.protocols.secure_sum.advertised import Advertised

FEWEST_CLIENTS = 3
MOST_JOINED = 50
"""Up to so many clients everybody is joined to everybody: it costs little, and each sees how many are left."""
_BROKEN = 2.0**-40
_LOST = 2.0**-20
_SMALL = np.array([lgamma(number + 1.0) for number in range(16)])
_TRIED = 2.0**-64
"""One over the number of graphs that a server which lies may try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The size of a neighbourhood and what its shares need. Public."""

    size: int
    """k: neighbours of each client."""
    needed: int
    """t: shares that give a secret back; ``2 t > k + colluding``."""
    colluding: int
    """Most neighbours that collude with the server, but for a chance of 2^-40 in all neighbourhoods together."""


def share_of(clients: int, share: float) -> int:
    """``floor(share clients)``, without the rounding of 0.1 and the like."""
    return int(clients * Fraction(str(share)))


def fewest_left(clients: int, dropout: float) -> int:
    """``ceil((1 - dropout) clients)``, but 2 at least."""
    return max(2, clients - share_of(clients, dropout))


@lru_cache(maxsize=256)
def neighbourhood(clients: int, *, dropout: float, colluding: float) -> Neighbourhood:
    """The smallest neighbourhood that is safe enough.

    With c(k) the smallest number for which ``n P(more than c of k neighbours collude) <= 2^-40``, and ``t =
    floor((k + c) / 2) + 1``, k is the smallest even number with

    * ``n P(fewer than t of k neighbours stay) <= 2^-20``: every secret that is needed can be put together,
    * ``n^2 / 2 P(k given places are all dropped or colluding) <= 2^-40``: the ring stays in one piece (cutting it
      takes two gaps of k / 2), so that only the sum over all who stay can be seen,

    or else, and among 50 clients or fewer, everybody is joined to everybody, ``k = n - 1``.

    ``2 t > k + c``: of a client's shares an honest neighbour gives one kind and c give both, which together are too
    few for t of either kind. So no client's both secrets can be put together, whatever the server asks whom, and a
    step in which clients confirm to each other who is left is not needed for that.

    Args:
        clients: n, those that advertised keys; >= 3.
        dropout: largest share of them that may drop out afterwards.
        colluding: largest share of them that may collude with the server.

    Raises:
        InputError: fewer than 3 clients.
    """
    if clients < FEWEST_CLIENTS:
        raise InputError(
            f"a secure sum needs at least {FEWEST_CLIENTS} clients, got {clients}: each of two would learn the "
            "other's numbers from the sum"
        )
    dropped, bad = share_of(clients, dropout), share_of(clients, colluding)
    sizes = range(2, clients - 1, 2) if clients > MOST_JOINED else ()
    for size in sizes:
        found = _sized(size, clients, bad)
        lost = clients * _at_most(found.needed - 1, clients - 1, clients - 1 - dropped, size)
        cut = 2 * log(clients) - log(2) + _log_all(clients, min(clients, dropped + bad), size)
        if found.needed <= size and lost <= _LOST and cut <= log(_BROKEN):
            return found
    return _sized(clients - 1, clients, bad)


@lru_cache(maxsize=256)
def vouched_neighbourhood(clients: int, *, dropout: float, bad: int) -> Neighbourhood:
    """The smallest neighbourhood that is safe enough against a server that lies, where clients are vouched for.

    Such a server chooses who drops out, after it knows the graph, and may try 2^64 graphs (numbers of sessions,
    sets of members) before it picks one. With h(k) the smallest number for which ``2 n P(more than h of k / 2
    neighbours collude) <= 2^-104``, and ``t = k / 2 + h + 1``, k is the smallest even number with ``n P(fewer than
    t of k neighbours stay) <= 2^-20``, for dropouts by chance; or else, and among 50 clients or fewer, everybody
    is joined to everybody, with ``t = floor((k + c) / 2) + 1``.

    Then, but for a chance of 2^-40 (``h`` counts the colluding of either half of a neighbourhood):

    * those who collude hold at most ``2 h < t`` shares of a secret;
    * ``2 t > k + 2 h``: no client's both secrets can be put together, whatever is asked of whom;
    * whoever cuts the ring leaves a survivor with all k / 2 neighbours on one side gone or colluding: at most
      ``k / 2 + h < t`` can give shares of its secret, so no sum over a piece of the ring can be opened.

    Args:
        clients: n, those that advertised keys; >= 3.
        dropout: largest share of them that may drop out afterwards by chance.
        bad: most of them that may collude with the server; the list of devices bounds it.

    Raises:
        InputError: fewer than 3 clients.
    """
    if clients < FEWEST_CLIENTS:
        return neighbourhood(clients, dropout=dropout, colluding=0.0)
    dropped, bad = share_of(clients, dropout), min(bad, clients - 1)
    for size in range(2, clients - 1, 2) if clients > MOST_JOINED else ():
        half = size // 2
        most = _most_marked(half, clients - 1, bad, 2 * clients, _BROKEN * _TRIED)
        needed = half + most + 1
        lost = clients * _at_most(needed - 1, clients - 1, clients - 1 - dropped, size)
        if needed <= size and lost <= _LOST:
            return Neighbourhood(size=size, needed=needed, colluding=2 * most)
    return _sized(clients - 1, clients, bad)


def _most_marked(drawn: int, all_others: int, marked: int, times: int, chance: float) -> int:
    """The smallest number that is exceeded with at most this chance in so many draws."""
    more = _probabilities(all_others, marked, drawn)[::-1].cumsum()[::-1]  # at least 0, 1, ... of those drawn
    return int(np.count_nonzero(times * more > chance)) - 1


def _sized(size: int, clients: int, bad: int) -> Neighbourhood:
    most = min(size, bad)
    if size < clients - 1:
        most = _most_marked(size, clients - 1, bad, clients, _BROKEN)
    return Neighbourhood(size=size, needed=(size + most) // 2 + 1, colluding=most)


def _at_most(count: int, all_others: int, marked: int, drawn: int) -> float:
    return float(_probabilities(all_others, marked, drawn)[: max(0, count + 1)].sum())


def _probabilities(all_others: int, marked: int, drawn: int) -> FloatArray:
    """Hypergeometric: that 0, 1, ... ``drawn`` of those drawn are marked; float64, shape (drawn + 1,)."""
    hit = np.arange(drawn + 1)
    possible = (hit <= marked) & (drawn - hit <= all_others - marked)
    inside, outside = np.where(possible, hit, 0), np.where(possible, drawn - hit, 0)
    logs = (
        _log_choices(marked, inside)
        + _log_choices(all_others - marked, outside)
        - _log_choices(all_others, np.asarray(drawn))
    )
    chances: FloatArray = np.where(possible, np.exp(logs), 0.0)
    return chances


def _log_choices(among: int, chosen: NDArray[Any]) -> FloatArray:
    logs: FloatArray = lgamma(among + 1.0) - _log_factorials(chosen) - _log_factorials(among - chosen)
    return logs


def _log_factorials(numbers: NDArray[Any]) -> FloatArray:
    """By Stirling's series from 16 on, where five terms leave less than rounding does."""
    large = np.maximum(numbers, _SMALL.size)
    series = _stirling(1.0 / (large * large)) / large
    found: FloatArray = (large + 0.5) * np.log(large) - large + 0.5 * log(2 * pi) + series
    return np.where(numbers < _SMALL.size, _SMALL[np.minimum(numbers, _SMALL.size - 1)], found)


def _stirling(x: FloatArray) -> FloatArray:
    series: FloatArray = 1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))
    return series


def _log_all(clients: int, marked: int, places: int) -> float:
    """Log of the chance that given places are all marked."""
    if marked < places:
        return -np.inf
    return float(_log_choices(marked, np.asarray(places)) - _log_choices(clients, np.asarray(places)))


def ring(session: bytes, identities: Sequence[bytes]) -> list[bytes]:
    """The clients in the order of the ring.

    Args:
        session: 32 bytes that no other session has.
        identities: 32 bytes each, of all clients in any order; no two the same.
    """
    everybody = hashlib.sha256(session + b"".join(sorted(identities))).digest()
    return sorted(identities, key=lambda identity: hashlib.sha256(everybody + identity).digest())


def neighbours(order: Sequence[bytes], place: int, size: int) -> list[bytes]:
    """Those joined to the client at this place of the ring, sorted by identity.

    Args:
        order: as ``ring`` gives it.
        place: of the client.
        size: k, even or ``len(order) - 1``.
    """
    if size == len(order) - 1:
        return sorted(other for other in order if other != order[place])
    steps = (*range(-(size // 2), 0), *range(1, size // 2 + 1))
    return sorted(order[(place + step) % len(order)] for step in steps)


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
