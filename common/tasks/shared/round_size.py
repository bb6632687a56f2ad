"""How large an item round of an algorithm is: what sizing a deployment needs to know of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSize:
    """One item round at some rank. Public."""

    vector_width: int
    """Numbers in a user's vector."""
    item_numbers: int
    """Numbers that a round releases for one item."""
    common_numbers: int
    """Numbers that a round releases once."""
    user_numbers: int = 0
    """Of those, numbers that every user gives as they are, not as rows."""
    board_bytes: int
    """Of a board, for one item: its factors as float32, and counts, weights and flags."""
