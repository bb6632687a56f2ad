"""What ``/healthz`` answers: all is well, something is lost already, or something is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedboard.server.operating.run_fares import Fares

OK, FAILING = 200, 503
"""Status codes; a run that is degraded is alive, and to start it again would not help, so it is ``OK``."""


def health(
    problems: Sequence[str], lines: Sequence[Mapping[str, Any]] | None = None, *, most_lost: float = 1.0
) -> tuple[int, dict[str, Any]]:
    """The status code, and a JSON object: ``status`` (ok, degraded or failing), ``problem``, ``rounds``.

    Args:
        problems: what is wrong in this process, in sentences.
        lines: of a run's log of rounds; None: no run.
        most_lost: share of the planned rounds above which the run counts as failing.
    """
    fares = None if lines is None else Fares.of(lines)
    told: dict[str, Any] = {}
    if fares is not None:
        told = {"rounds": {"planned": fares.planned, "made": fares.made, "lost": fares.lost}}
        if fares.share_lost > most_lost:
            problems = [*problems, f"{fares.sentence}; more than rounds.most_lost ({most_lost:g}) allows"]
    if problems:
        return FAILING, {"status": "failing", "problem": "; ".join(problems), **told}
    if fares is not None and fares.lost:
        return OK, {"status": "degraded", "problem": fares.sentence, **told}
    return OK, {"status": "ok", **told}
