"""What a round of a fleet costs: bytes from the layout of the messages, time and memory from measured rates.

Bytes are exact but for a small header. Times are rates of one machine (``benchmarks/fleet_costs.py`` measures them)
times the numbers of users, ratings, items and factors, so they carry over to other sizes, not to other machines.
"""

from dataclasses import dataclass
from enum import StrEnum

from fedboard.common.errors import InputError

_HEADER = 700
"""Of an answer: names, shapes and fields as JSON."""
_PER_RATING = 4 + 2 + 2
"""Item number, weight, response."""
_COPIES = 2
"""The server holds answers as they came, and once more joined while they are summed."""
_BLOCK_BYTES = 3 * 8 * (1 << 20)
"""A block of a million numbers as exact sums, noise and real numbers."""


class Method(StrEnum):
    """Which numbers are released for an item."""

    ADADPALS = "adadpals"
    RESIDUAL = "residual"

    def vector_width(self, rank: int) -> int:
        """Numbers in a user's vector: ``residual`` has one more, for the items' biases."""
        return rank + (self is Method.RESIDUAL)

    def item_numbers(self, rank: int) -> int:
        """Numbers that a round releases for one item: b_i, and for AdaDPALS also the symmetric A_i."""
        width = self.vector_width(rank)
        return width if self is Method.RESIDUAL else width + width * (width + 1) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A deployment to be sized."""

    users: int
    items: int
    rank: int
    ratings_per_user: float
    users_per_node: int = 1
    """1 for phones; a gateway hosts a cohort."""
    method: Method = Method.RESIDUAL

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: names the number.
        """
        for name in ("users", "items", "rank", "users_per_node"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be >= 1, got {getattr(self, name)}")
        if not 0 < self.ratings_per_user <= self.items:
            raise InputError(
                f"ratings per user must be in (0, {self.items}] (the catalogue), got {self.ratings_per_user:g}"
            )

    @property
    def nodes(self) -> int:
        """Number of Flower nodes."""
        return -(-self.users // self.users_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """CPU seconds on one core of the machine on which the guide's numbers were taken (Zen 5)."""

    node_fixed: float = 2e-3
    """A node reads a question, rebuilds the task, packs an answer."""
    node_per_board_number: float = 2e-9
    """It reads the board and derives what all its users need."""
    node_per_rating: float = 1.2e-7
    """Its users' vectors are solved and clipped, at rank 8."""
    server_per_answer: float = 1.2e-3
    """The server sends a question to a node, and checks its answer."""
    server_per_rating: float = 1e-7
    """It checks, joins and sums the rows, at 8 numbers an item."""
    server_per_number: float = 4e-8
    """Noise, solve and publication, for each released number."""


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

    @property
    def form(self) -> str:
        """The smaller wire form."""
        return "factored" if self.factored_bytes_per_node <= self.dense_bytes_per_node else "dense"


def round_costs(fleet: Fleet, rates: Rates | None = None) -> RoundCosts:
    """Cost of one item round.

    Args:
        fleet: its size.
        rates: of the machine.
    """
    rates = rates or Rates()
    numbers = fleet.items * fleet.method.item_numbers(fleet.rank)
    factored, dense = factored_bytes(fleet), 8 * numbers + _HEADER
    board = 4 * fleet.items * (fleet.method.vector_width(fleet.rank) + 4) + 12 * fleet.items
    smaller = min(factored, dense)
    held = _COPIES * factored * fleet.nodes if factored <= dense else (fleet.nodes + 1) * dense
    ratings = fleet.users * fleet.ratings_per_user
    width = fleet.method.item_numbers(fleet.rank)
    return RoundCosts(
        board_bytes=board,
        factored_bytes_per_node=factored,
        dense_bytes_per_node=dense,
        server_bytes_in=smaller * fleet.nodes,
        server_bytes_out=board * fleet.nodes,
        server_memory_bytes=int(held + board + _BLOCK_BYTES),
        node_seconds=rates.node_fixed
        + rates.node_per_board_number * board / 4
        + rates.node_per_rating * fleet.users_per_node * fleet.ratings_per_user * max(1.0, fleet.rank / 8),
        server_seconds=rates.server_per_answer * fleet.nodes
        + (rates.server_per_rating * ratings * max(1.0, width / 8) if factored <= dense else 0.0)
        + rates.server_per_number * numbers,
    )


def factored_bytes(fleet: Fleet) -> int:
    """An answer as rows: row pointers, ratings with weights and responses, vectors, and the header."""
    per_user = 8 + _PER_RATING * fleet.ratings_per_user + 2 * fleet.method.vector_width(fleet.rank)
    return int(_HEADER + 8 + fleet.users_per_node * per_user)


__all__ = ["Fleet", "Method", "Rates", "RoundCosts", "factored_bytes", "round_costs"]
