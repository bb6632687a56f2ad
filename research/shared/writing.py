"""What a reproduced figure leaves behind: pictures, numbers.json and a README.md."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.shared.drawing import pictures
from research.shared.experiment import Experiment, Outcome

_DIGITS = 4
_MOST_LINES = 60
"""Longer tables stay in numbers.json."""


def record_of(experiment: Experiment, outcome: Outcome, *, seconds: float) -> dict[str, Any]:
    """Everything as one JSON object: the outcome's numbers at the top level, beside what describes them.

    Numbers that are not finite become null; arrays become lists.

    Args:
        experiment: which.
        outcome: of it.
        seconds: that it took.

    Raises:
        ValueError: a number is named like one of the describing keys.
    """
    about = {
        "paper": experiment.paper,
        "figure": experiment.figure,
        "title": experiment.title,
        "data": experiment.data,
        "comparison": outcome.comparison,
        "seconds": round(seconds, 3),
        "settings": _plain(outcome.settings),
    }
    clash = sorted(set(about) & set(outcome.numbers))
    if clash:
        raise ValueError(f"numbers may not be called {', '.join(clash)}: these keys describe the experiment")
    record: dict[str, Any] = about | _plain(outcome.numbers)
    return record


def write_outcome(record: Mapping[str, Any], outcome: Outcome, place: Path) -> list[Path]:
    """Write every figure as .svg and .png, numbers.json, and README.md.

    Args:
        record: of ``record_of``.
        outcome: its figures and numbers.
        place: existing folder.

    Returns:
        The files, README.md last.
    """
    files = [path for stem, figure in outcome.figures.items() for path in pictures(figure, place / stem)]
    numbers, readme = place / "numbers.json", place / "README.md"
    numbers.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    readme.write_text(_readme(record, outcome), encoding="utf-8")
    return [*files, numbers, readme]


def tables(numbers: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The numbers as tables: name, head, and lines of finished text.

    A group of groups with numbers becomes a table with a row per group; what lies deeper becomes a table of its
    own; single numbers share one table without a name; lists stay in numbers.json.
    """
    return _tables("", _plain(numbers))


def _readme(record: Mapping[str, Any], outcome: Outcome) -> str:
    parts = [
        f"# {record['title']}",
        f"Paper `{record['paper']}`, figure `{record['figure']}`. {record['comparison']}",
        f"Data: {record['data'].rstrip('.')}. Taken in {record['seconds']:.0f} s.",
        *(f"![{stem}]({stem}.svg)" for stem in outcome.figures),
        "## Numbers",
        *(_markdown(*table) for table in tables(outcome.numbers)),
        "All numbers are in [numbers.json](numbers.json).",
        "## Settings",
        f"```json\n{json.dumps(record['settings'], indent=2)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(name: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    title = f"**{name}**\n\n" if name else ""
    if len(lines) > _MOST_LINES:
        return f"{title}{len(lines)} lines, in numbers.json."
    rows = [head, ["---"] * len(head), *lines]
    return title + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _tables(name: str, group: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    single = {key: value for key, value in group.items() if _is_leaf(value)}
    rows = {key: value for key, value in group.items() if _is_row(value)}
    found = []
    if single:
        found.append((name, ["name", "value"], [[key, _told(value)] for key, value in single.items()]))
    if rows:
        head = list(dict.fromkeys(column for row in rows.values() for column in row))
        lines = [[key, *(_told(row.get(column, "")) for column in head)] for key, row in rows.items()]
        found.append((name, ["", *head], lines))
    for key, value in group.items():
        if isinstance(value, Mapping) and key not in rows:
            found += _tables(f"{name}.{key}" if name else key, value)
    return found


def _is_leaf(value: object) -> bool:
    return not isinstance(value, Mapping | list)


def _is_row(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(_is_leaf(entry) for entry in value.values())


def _told(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return "-" if value is None else str(value).replace("|", "\\|")


def _plain(value: Any) -> Any:
    """As JSON has it."""
    match value:
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
        case Path():
            return str(value)
    return value
