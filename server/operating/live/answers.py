"""Who answered a fleet's questions: for its operator, on her own machine.

How many devices answer, refuse or fall silent depends on their data in ways that no budget covers, so none of it
goes to a page that other machines can reach.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedboard.server.operating.log_lines import number_of

_COUNTED = ("answers", "rejected_rows", "bytes_up", "bytes_down")


def answers_of(lines: Sequence[Mapping[str, Any]], *, expected: int | None) -> dict[str, Any]:
    """Of each round and in all.

    Args:
        lines: of the run's log of rounds.
        expected: nodes that are asked, where that is known; those that did not answer are its rest.
    """
    rounds = [_of_round(line, expected) for line in lines]
    refused: Counter[str] = Counter()
    for one in rounds:
        refused.update(one["refused"])
    return {
        "expected": expected,
        "rounds": rounds,
        "refused": dict(sorted(refused.items())),
        **{name: sum(one[name] for one in rounds) for name in _COUNTED},
        "silent": sum(one["silent"] or 0 for one in rounds) if expected else None,
        "seconds": sum(one["seconds"] for one in rounds),
    }


def expected_nodes(folder: Path) -> int | None:
    """How many nodes a fleet's job asks, from the job of the run in this folder."""
    try:
        job = json.loads((folder.parent.parent / "job.json").read_text(encoding="utf-8"))
        found = job.get("rounds", job).get("expected_nodes")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, int) else None


def _of_round(line: Mapping[str, Any], expected: int | None) -> dict[str, Any]:
    counted = {name: int(number_of(line.get(name))) for name in _COUNTED}
    refused = {str(code): int(number_of(count)) for code, count in dict(line.get("refused") or {}).items()}
    return {
        **counted,
        "refused": refused,
        "silent": None if expected is None else max(expected - counted["answers"] - sum(refused.values()), 0),
        "attempts": int(number_of(line.get("attempts", 1))),
        "seconds": number_of(line.get("seconds")),
    }
