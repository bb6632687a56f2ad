"""What a round of a fleet costs: bytes from the layout of the messages, time and memory from measured rates.

Bytes are exact but for headers. Times are rates of one machine times the numbers of users, ratings,
items and factors, so they carry over to other sizes, not to other machines.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import USUAL, algorithm_of, installed
from fedboard.common.tasks.shared.round_size import RoundSize

Carrier: TypeAlias = Literal["flower", "direct"]
"""By what devices fetch questions: Flower, or the door itself."""
_HEADER = 1680
"""Of an answer: names, shapes and fields as JSON, and what seals it (1 145 bytes with ML-KEM)."""
_BOARD_HEADER = 10_000
"""Of a board: configuration, and a certificate that grows by about 1 kB a round."""
_PER_RATING = 4 + 2 + 2
"""Item number, weight, response."""
_COPIES = 2
"""The server holds answers as they came, and once more joined while they are summed."""
_MOST_RATINGS = 1 << 26
"""Rows of more ratings are summed before more are taken (``RunningSums``)."""
_BLOCK_BYTES = 3 * 8 * (1 << 20)
"""A block of a million numbers as exact sums, noise and real numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A deployment to be sized."""

    users: int
    items: int
    rank: int
    ratings_per_user: float
    users_per_node: int = 1
    """1 for phones; a gateway hosts a cohort."""
    algorithm: str = USUAL
    """By name: which numbers are released for an item."""
    title_bytes: float = 40.0
    """Id and title of an item, as JSON."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: names the number, or the algorithm where its rounds have no known size.
        """
        for name in ("users", "items", "rank", "users_per_node"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be >= 1, got {getattr(self, name)}")
        if not 0 < self.ratings_per_user <= self.items:
            raise InputError(
                f"ratings per user must be in (0, {self.items}] (the catalogue), got {self.ratings_per_user:g}"
            )
        _ = self.round

    @property
    def round(self) -> RoundSize:
        """An item round of the algorithm at this rank.

        Raises:
            InputError: it does not say how large its rounds are.
        """
        size = algorithm_of(self.algorithm).round_size
        if size is None:
            raise InputError(
                f"algorithm {self.algorithm!r} does not say how large its rounds are; those that do are "
                f"{', '.join(sized_algorithms())}"
            )
        return size(self.rank)

    @property
    def nodes(self) -> int:
        """Number of Flower nodes."""
        return -(-self.users // self.users_per_node)

    @property
    def numbers(self) -> int:
        """Numbers that a round releases."""
        return self.items * self.round.item_numbers + self.round.common_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """CPU seconds on one core of the machine on which the guide's numbers were taken (Zen 5), numpy kernels.

    Each is one unit of the quantity of the same name in ``node_terms`` or ``server_terms``.
    """

    node_fixed: float = 0.0018
    """A node reads a question, rebuilds the task, packs an answer."""
    node_per_board_byte: float = 2.2e-09
    """It reads the board, checks its digest and derives what all its users need."""
    node_per_user: float = 9.9e-06
    node_per_product: float = 7.7e-09
    """Ratings times width: its users' equations are formed, solved and clipped."""
    node_per_sum: float = 4.8e-07
    """Ratings, where a node sends sums."""
    server_fixed: float = 0.011
    """Ledger, certificate, files."""
    server_per_answer: float = 0.00025
    """It sends a question to a node, and reads and checks its answer; without what carries both."""
    server_per_rating: float = 7.4e-08
    """It checks rows and brings them into the order of the items."""
    server_per_product: float = 1.2e-10
    """Ratings times numbers of an item: the sums."""
    server_per_number: float = 1e-07
    """Noise and publication, for each released number."""
    server_per_item: float = 2.7e-06
    server_per_entry: float = 1.7e-08
    """Items times squared width: their equations are solved."""
    server_per_dense_number: float = 1.4e-09
    """Each number of an answer that is sums is checked and added."""
    carry_per_answer: float = 0.2
    """SuperLink and proxy: the requests of one question and its answer, for boards of up to some megabytes."""
    carry_per_poll: float = 0.012
    """SuperLink and proxy: one request for work, where there is none."""
    direct_per_answer: float = 0.0057
    """The door, for a device without Flower: one question and its answer, over a connection of their own."""
    direct_per_byte: float = 1.2e-09
    """The door: each byte of the question."""
    direct_per_poll: float = 0.0044
    """The door: one request for work, where there is none, over a connection of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCosts:
    """One round of one fleet; bytes, and CPU seconds on one core."""

    board_bytes: int
    """Down to each node."""
    factored_bytes_per_node: int
    """Up from each node, as rows."""
    dense_bytes_per_node: int
    """Up from each node, as sums."""
    server_bytes_in: int
    """In all, by the smaller of the two forms."""
    server_bytes_out: int
    server_memory_bytes: int
    node_seconds: float
    server_seconds: float
    """Of the ServerApp."""
    carry_seconds: float
    """Of what carries messages: SuperLink and proxy, or the door alone."""
    poll_seconds: float
    """Of the same, for one request for work where there is none."""

    @property
    def form(self) -> str:
        """The smaller wire form."""
        return "factored" if self.factored_bytes_per_node <= self.dense_bytes_per_node else "dense"


def sized_algorithms() -> tuple[str, ...]:
    """Names of the algorithms whose rounds have a known size."""
    return tuple(algorithm.name for algorithm in installed() if algorithm.round_size is not None)


def round_costs(fleet: Fleet, rates: Rates | None = None, *, carrier: Carrier = "flower") -> RoundCosts:
    """Cost of one item round.

    Args:
        fleet: its size.
        rates: of the machine.
        carrier: by what devices fetch questions.
    """
    rates = rates or Rates()
    factored, dense = factored_bytes(fleet), dense_bytes(fleet)
    form, board = ("factored" if factored <= dense else "dense"), board_bytes(fleet)
    rows = min(1.0, _MOST_RATINGS / (fleet.users * fleet.ratings_per_user)) * factored * fleet.nodes
    held = _COPIES * rows if form == "factored" else 3 * dense
    return RoundCosts(
        board_bytes=board,
        factored_bytes_per_node=factored,
        dense_bytes_per_node=dense,
        server_bytes_in=min(factored, dense) * fleet.nodes,
        server_bytes_out=board * fleet.nodes,
        server_memory_bytes=int(held + board + _BLOCK_BYTES),
        node_seconds=_seconds(node_terms(fleet, form), rates),
        server_seconds=_seconds(server_terms(fleet, form), rates),
        carry_seconds=_carrying(rates, board, carrier) * fleet.nodes,
        poll_seconds=rates.carry_per_poll if carrier == "flower" else rates.direct_per_poll,
    )


def _carrying(rates: Rates, board: int, carrier: Carrier) -> float:
    """Seconds for one question and its answer."""
    if carrier == "flower":
        return rates.carry_per_answer
    return rates.direct_per_answer + rates.direct_per_byte * board


def node_terms(fleet: Fleet, form: str) -> Mapping[str, float]:
    """How much of what one node does in a round, by the name of its rate."""
    ratings = fleet.users_per_node * fleet.ratings_per_user
    return {
        "node_fixed": 1.0,
        "node_per_board_byte": board_bytes(fleet),
        "node_per_user": fleet.users_per_node,
        "node_per_product": ratings * fleet.round.vector_width,
        "node_per_sum": ratings if form == "dense" else 0.0,
    }


def server_terms(fleet: Fleet, form: str) -> Mapping[str, float]:
    """How much of what the ServerApp does in a round, by the name of its rate."""
    ratings = fleet.users * fleet.ratings_per_user if form == "factored" else 0.0
    return {
        "server_fixed": 1.0,
        "server_per_answer": fleet.nodes,
        "server_per_rating": ratings,
        "server_per_product": ratings * fleet.round.item_numbers,
        "server_per_number": fleet.numbers,
        "server_per_item": fleet.items,
        "server_per_entry": fleet.items * fleet.round.vector_width**2,
        "server_per_dense_number": fleet.nodes * fleet.numbers if form == "dense" else 0.0,
    }


def _seconds(terms: Mapping[str, float], rates: Rates) -> float:
    values = asdict(rates)
    return float(sum(values[name] * amount for name, amount in terms.items()))


def factored_bytes(fleet: Fleet) -> int:
    """An answer as rows: row pointers, ratings with weights and responses, vectors, totals, and the header."""
    rows = 8 + _PER_RATING * fleet.ratings_per_user
    per_user = rows + 2 * fleet.round.vector_width + 8 * fleet.round.user_numbers
    return int(_HEADER + 8 + fleet.users_per_node * per_user)


def dense_bytes(fleet: Fleet) -> int:
    """An answer as sums: one int64 for each number that the round releases, and the header."""
    return _HEADER + 8 * fleet.numbers


def board_bytes(fleet: Fleet) -> int:
    """A board: what is known of each item, its id and title, configuration and certificate."""
    per_item = fleet.round.board_bytes + fleet.title_bytes
    return int(_BOARD_HEADER + fleet.items * per_item)
