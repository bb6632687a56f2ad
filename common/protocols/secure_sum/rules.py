"""How many clients a secure sum needs, and how many it can lose. Public; server and clients compute alike.

Who shares masks with whom follows from that: a k-regular graph, k growing slowly with the number of clients. The
order of the clients (``members.ring``) is a function of keys that are fixed before it is known, so those who drop
out and those who collude fall into a neighbourhood as balls drawn without replacement (hypergeometric). Assumed:
they do not depend on the order. A server that drops clients after it knows the order, or that invents clients, is
outside of what ``neighbourhood`` is computed for; ``vouched_neighbourhood`` is for it.

Reference: Bell, Bonawitz, Gascon, Lepoint and Raykova (2020), doi:10.1145/3372297.3417885, sections 3 and 4.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from math import lgamma, log, pi
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Given
from fedboard.common.protocols.sums.residues import Packing

MOST_CLIENTS = 1 << 20
DROPOUT = 0.3
COLLUDING = 0.1
_MOST_USERS = 1 << 31
_AUTHORITY = re.compile("([0-9a-f]{64})?")
FEWEST_CLIENTS = 3
MOST_JOINED = 50
"""Up to so many clients everybody is joined to everybody: it costs little, and each sees how many are left."""
MOST_NEIGHBOURS = 1 << 12
"""More are not looked for: near ``dropout = (1 - colluding) / 2`` they are endless, and the search the square."""
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
        InputError: fewer than 3 clients, or more than ``MOST_NEIGHBOURS`` would be needed.
    """
    if clients < FEWEST_CLIENTS:
        raise InputError(
            f"a secure sum needs at least {FEWEST_CLIENTS} clients, got {clients}: each of two would learn the "
            "other's numbers from the sum"
        )
    dropped, bad = share_of(clients, dropout), share_of(clients, colluding)
    for size in _sizes(clients):
        found = _sized(size, clients, bad)
        lost = clients * _at_most(found.needed - 1, clients - 1, clients - 1 - dropped, size)
        cut = 2 * log(clients) - log(2) + _log_all(clients, min(clients, dropped + bad), size)
        if found.needed <= size and lost <= _LOST and cut <= log(_BROKEN):
            return found
    return _all_joined(clients, bad, dropout)


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
        InputError: fewer than 3 clients, or more than ``MOST_NEIGHBOURS`` would be needed.
    """
    if clients < FEWEST_CLIENTS:
        return neighbourhood(clients, dropout=dropout, colluding=0.0)
    dropped, bad = share_of(clients, dropout), min(bad, clients - 1)
    for size in _sizes(clients):
        half = size // 2
        most = _most_marked(half, clients - 1, bad, 2 * clients, _BROKEN * _TRIED)
        needed = half + most + 1
        lost = clients * _at_most(needed - 1, clients - 1, clients - 1 - dropped, size)
        if needed <= size and lost <= _LOST:
            return Neighbourhood(size=size, needed=needed, colluding=2 * most)
    return _all_joined(clients, bad, dropout)


def _sizes(clients: int) -> range:
    return range(2, min(clients - 1, MOST_NEIGHBOURS + 1), 2) if clients > MOST_JOINED else range(0)


def _all_joined(clients: int, bad: int, dropout: float) -> Neighbourhood:
    if clients - 1 > MOST_NEIGHBOURS:
        raise InputError(
            f"{clients} clients, of whom a share of {dropout:g} may drop out and {bad} may collude with the server "
            f"need more than {MOST_NEIGHBOURS} neighbours of each: lower dropout or colluding"
        )
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
    x = 1.0 / (large * large)
    series = (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))) / large
    found: FloatArray = (large + 0.5) * np.log(large) - large + 0.5 * log(2 * pi) + series
    return np.where(numbers < _SMALL.size, _SMALL[np.minimum(numbers, _SMALL.size - 1)], found)


def _log_all(clients: int, marked: int, places: int) -> float:
    """Log of the chance that given places are all marked."""
    if marked < places:
        return -np.inf
    return float(_log_choices(marked, np.asarray(places)) - _log_choices(clients, np.asarray(places)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRules:
    """The public numbers of a secure sum."""

    most_users: int
    """Users whose contributions the sums have room for; 1 to 2^31."""
    survivors: int
    """Fewest clients whose inputs make a sum; >= 2."""
    dropout: float = DROPOUT
    """Largest share of the clients of a round that may drop out; ``dropout < (1 - colluding) / 2``."""
    colluding: float = COLLUDING
    """Largest share of them that may collude with the server; 0 to less than 1. Of the devices on the list, where
    clients are vouched for."""
    vouched_by: str = ""
    """Public key of the authority that vouches for clients, 64 hexadecimal digits; nobody does where it is
    empty."""

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            InputError: one is out of range.
        """
        require_whole("most_users", self.most_users, most=_MOST_USERS)
        require_whole("survivors", self.survivors, least=2, most=MOST_CLIENTS)
        _require_share("dropout", self.dropout)
        _require_share("colluding", self.colluding)
        if not isinstance(self.vouched_by, str) or not _AUTHORITY.fullmatch(self.vouched_by):
            raise InputError(
                "vouched_by must be the public key of an authority, 64 hexadecimal digits as `fedboard keys "
                f"roster` prints them, or nothing, got {self.vouched_by!r}"
            )
        if not self.dropout < (1 - self.colluding) / 2:
            raise InputError(
                f"dropout must be below (1 - colluding) / 2 = {(1 - self.colluding) / 2:g}, got {self.dropout:g}: "
                "fewer than the shares that are needed would be left"
            )

    @staticmethod
    def sized(*, clients: int, users: int, settings: Mapping[str, Any]) -> "SumRules":
        """For a fleet.

        Args:
            clients: how many there are; >= 3.
            users: how many they host in all.
            settings: parameters that override the defaults, by name.

        Raises:
            InputError: an unknown setting, a value out of range, or numbers that so many clients do not fit.
        """
        dropout = settings.get("dropout", DROPOUT)
        _require_share("dropout", dropout)
        chosen = {"most_users": max(1, users), "survivors": fewest_left(clients, dropout), "dropout": dropout}
        rules = SumRules.from_parameters({**chosen, "colluding": COLLUDING, **settings})
        neighbourhood(clients, dropout=rules.dropout, colluding=rules.colluding)  # refuses fewer than 3
        if rules.survivors > clients:
            raise InputError(f"survivors must be at most the {clients} clients, got {rules.survivors}")
        return rules

    @staticmethod
    def from_parameters(parameters: Mapping[str, Any]) -> "SumRules":
        """From numbers that may come from a peer.

        Raises:
            InputError: unknown, missing or out of range.
        """
        require_known(SumRules, parameters, of="a secure sum")
        return SumRules(**parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """All of them, JSON-able; who vouches only where somebody does."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return found if self.vouched_by else {k: v for k, v in found.items() if k != "vouched_by"}

    def neighbourhood(self, clients: int, devices: int | None = None) -> Neighbourhood:
        """Of each client, where so many advertised keys.

        Args:
            clients: how many.
            devices: on the list, where clients are vouched for.

        Raises:
            InputError: fewer than 3, or too large.
        """
        if devices is None:
            return neighbourhood(clients, dropout=self.dropout, colluding=self.colluding)
        return vouched_neighbourhood(clients, dropout=self.dropout, bad=self.colluding_of(devices))

    @property
    def fewest(self) -> int:
        """Clients without which no session begins."""
        return max(FEWEST_CLIENTS, self.survivors)

    def colluding_of(self, devices: int) -> int:
        """Devices of a list that may collude with the server."""
        return share_of(devices, self.colluding)

    def quorum(self, devices: int) -> int:
        """Confirmations of one set of survivors without which no client opens anything.

        ``floor((devices + c) / 2) + 1`` with c devices that collude. Of two different sets of one session each
        honest device confirms at most one, so both together have at most ``devices + c`` confirmations: fewer
        than two quorums.

        Args:
            devices: on the list.
        """
        return (devices + self.colluding_of(devices)) // 2 + 1

    def fewest_of(self, devices: int | None) -> int:
        """Clients without which there is no sum, where so many are on the list."""
        return self.fewest if devices is None else max(self.fewest, self.quorum(devices))

    def require_list(self, devices: int) -> None:
        """Refuse a list of devices that these numbers do not fit; any list fits those of an exact sum."""

    def require_sum_over(self, survivors: int) -> None:
        """Refuse a sum over too few clients.

        Raises:
            RefusedError: ``too-few``.
        """
        if survivors < self.fewest:
            raise RefusedError(Refusal.TOO_FEW)


def require_known(rules: type, parameters: Mapping[str, Any], *, of: str) -> None:
    """Refuse parameters that are not those of these rules; only who vouches may be left out.

    Raises:
        InputError: unknown or missing.
    """
    known = {field.name for field in fields(rules)}
    if set(parameters) | {"vouched_by"} != known:
        named = ", ".join(sorted(known - {"vouched_by"}))
        raise InputError(f"{of} has the parameters {named}, got {', '.join(sorted(parameters))}")


def _require_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise InputError(f"{name} must be a share in [0, 1), got {value!r}")


class Carried(Protocol):
    """What a protocol of masked sums carries: residues of what clients give, and the sums of those."""

    def packing(self, requests: Sequence[Request]) -> Packing:
        """How the requests become one vector; the same on server and clients.

        Raises:
            InputError: they leave no room modulo 2^32.
            PrivacyError: their sensitivity does not allow it.
        """
        ...

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """One client's vector, uint32, shape (size,). Private.

        Args:
            given: what the client gives. Private.
            noise: source of the client's own noise.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        ...

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray] | None:
        """What ``packing.unflatten`` gave, as far as honest clients can have made it. Private.

        None gives the round up, which everybody sees: only sums with all their noise may decide about that.
        """
        ...

    def residue_bits(self, packing: Packing) -> Mapping[str, int]:
        """By release name, bits of the modulus of sums that get their noise later; ``BookedRelease.publish``."""
        ...

    def noise_shares(self, survivors: int) -> int:
        """How many honest shares of the noise are in a sum over so many clients at least."""
        ...

    @property
    def noise_ratio(self) -> float:
        """Deviation of all noise in a sum over the booked one, at most. Public, so not of who stayed."""
        ...
