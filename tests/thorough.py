"""What tests do more of with ``pytest --thorough``: random examples of a property, and the like."""

import os


def is_thorough() -> bool:
    """Whether ``--thorough`` was given."""
    return os.environ.get("FEDBOARD_THOROUGH") == "1"


def examples(few: int, *, thorough: int) -> int:
    """How many random examples a property is tried with.

    Args:
        few: in each run of the tests; what a broken mechanism must not survive.
        thorough: with ``--thorough``.
    """
    return thorough if is_thorough() else few
