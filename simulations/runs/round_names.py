"""What the rounds of a run are called: the same in progress, records, report, help and ledger.

A run prepares (``preparation``, and with some algorithms ``biases`` and ``pairs``), then come the rounds, or
steps, that ``settings.rounds`` or ``settings.steps`` asks for: ``round 1`` makes the releases ``round-1/...``. Each
of them, the preparation included, ends with a board of its own.
"""

from collections.abc import Sequence
from itertools import groupby

from fedboard.common.contribution import Request
from fedboard.common.privacy.accounting.calibration import round_of_release


def round_names(plan: Sequence[Sequence[Request]]) -> tuple[str, ...]:
    """The name of every round, in their order.

    Args:
        plan: all requests of a run, round by round, as from ``Task.plan``. Public.

    Returns:
        Such as ``("preparation", "biases", "round 1", "round 2")``.
    """
    return tuple(round_of_release(requests[0].release.name).replace("-", " ") for requests in plan)


def counted(name: str) -> str | None:
    """``round`` or ``step`` for one that is counted; None for what comes before those."""
    kind, _, number = name.partition(" ")
    return kind if number.isdecimal() else None


def rounds_told(names: Sequence[str]) -> str:
    """All of them in a phrase: ``preparation, biases and 8 rounds``."""
    parts: list[str] = []
    for kind, group in groupby(names, key=counted):
        found = list(group)
        parts += (
            dict.fromkeys(found) if kind is None else [f"{len(found)} {kind}{'s' if len(found) > 1 else ''}"]
        )
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def place_of(name: str, names: Sequence[str]) -> str:
    """A round among the others: ``round 3 of 8``, or its name alone where it is not counted."""
    kind = counted(name)
    return name if kind is None else f"{name} of {sum(counted(other) == kind for other in names)}"
