"""Logs of rounds: a JSON object a line, read while somebody may be writing."""

import json
import math
from pathlib import Path
from typing import Any


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines so far; one that is being written or damaged ends them, and a file that is not there has none."""
    found = list[dict[str, Any]]()
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            break
        if isinstance(entry, dict):
            found.append(entry)
    return found


def number_of(value: Any) -> float:
    """A finite number of a line; 0 for anything else."""
    return float(value) if is_number(value) else 0.0


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
