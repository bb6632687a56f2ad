"""The table that a point function is a function on, and the tree over it."""

from dataclasses import dataclass

from fedboard.common.errors import InputError

RESIDUES_PER_BLOCK = 4
"""Residues modulo 2^32 in one AES block."""
_MOST_POINTS = 1 << 30
_MOST_WIDTH = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Rows ``0 .. n_points - 1`` of ``width`` residues modulo 2^32 each. Public.

    The tree ends early where several rows fit into one AES block: its leaf is then a few neighbouring rows.
    """

    n_points: int
    width: int

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: no points, no numbers, or more than is ever used.
        """
        if not 1 <= self.n_points <= _MOST_POINTS or not 1 <= self.width <= _MOST_WIDTH:
            raise InputError(
                f"a table of a point function has 1 to {_MOST_POINTS} rows of 1 to {_MOST_WIDTH} numbers, got "
                f"{self.n_points} rows of {self.width}"
            )

    @property
    def points_per_leaf(self) -> int:
        """Neighbouring rows in one leaf: 4, 2 or 1."""
        return max(1, RESIDUES_PER_BLOCK // self.width)

    @property
    def n_leaves(self) -> int:
        """Leaves that hold rows."""
        return -(-self.n_points // self.points_per_leaf)

    @property
    def levels(self) -> int:
        """Of the tree: 0 where there is one leaf."""
        return (self.n_leaves - 1).bit_length()

    @property
    def leaf_width(self) -> int:
        """Residues in one leaf."""
        return self.points_per_leaf * self.width

    @property
    def leaf_blocks(self) -> int:
        """AES blocks that hold the numbers of one leaf."""
        return -(-self.leaf_width // RESIDUES_PER_BLOCK)

    def nodes_at(self, level: int) -> int:
        """Nodes of this level above leaves that hold rows."""
        return -(-self.n_leaves >> self.levels - level)
