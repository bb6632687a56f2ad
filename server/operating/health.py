"""What ``/healthz`` answers: all is well, something is lost already, or something is wrong."""

import json
from pathlib import Path
from typing import Any

from fedboard.server.operating.run_fares import Fares

OK, FAILING = 200, 503
"""Status codes; a run that is degraded is alive, and to start it again would not help, so it is ``OK``."""


def health(
    problem: str | None,
    lines: list[dict[str, Any]] | None = None,
    *,
    failures: float = 0,
    most_lost: float = 1.0,
) -> tuple[int, dict[str, Any]]:
    """The status code, and a JSON object: ``status`` (ok, degraded or failing), ``problem``, ``rounds``.

    Args:
        problem: what is wrong in this process, in a sentence; None where nothing is.
        lines: of a run's log of rounds; None: no run.
        failures: how often in a row the training was interrupted without a new board.
        most_lost: share of the planned rounds above which the run counts as failing.
    """
    fares = None if lines is None else Fares.of(lines)
    told: dict[str, Any] = {}
    if fares is not None:
        told = {"rounds": {"planned": fares.planned, "made": fares.made, "lost": fares.lost}}
        if problem is None and fares.share_lost > most_lost:
            problem = f"{fares.sentence}; more than rounds.most_lost ({most_lost:g}) allows"
    if problem is not None:
        return FAILING, {"status": "failing", "problem": problem, **told}
    if fares is not None and fares.lost:
        return OK, {"status": "degraded", "problem": fares.sentence, **told}
    if failures:
        waits = f"interrupted {failures:g} times in a row without a new board; the server's log says why"
        return OK, {"status": "degraded", "problem": waits, **told}
    return OK, {"status": "ok", **told}


def failures_of(folder: Path) -> float:
    """How often in a row the supervisor has seen the training of this run fail."""
    try:
        found = json.loads((folder / "counts" / "supervisor.json").read_text(encoding="utf-8"))
        return float(found.get("training_failures", 0))
    except (OSError, ValueError, AttributeError, TypeError):
        return 0.0
