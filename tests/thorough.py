"""How many random examples a property is tried with: a few each time, many with ``pytest --thorough``."""

import os


def examples(few: int, *, thorough: int) -> int:
    """How many.

    Args:
        few: in each run of the tests; what a broken mechanism must not survive.
        thorough: with ``--thorough``.
    """
    return thorough if os.environ.get("FEDBOARD_THOROUGH") == "1" else few
