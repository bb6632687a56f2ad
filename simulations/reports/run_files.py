"""Reading a run directory: what is there becomes one record, what is missing stays empty."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError
from fedboard.common.reports.wording import (
    JsonObject,
    number_or_none,
    numbers,
    numeric_entries,
    object_or_empty,
)
from fedboard.simulations.evaluation.tallies import EDGES

_PAGE = "page.html"
_NOT_METRICS = frozenset({"epsilon", "delta", "seed", "seconds", "seconds_total"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Metrics of one model: the run itself or a baseline. Not private: simulation only."""

    name: str
    epsilon: float | None
    """Its own guarantee at the run's delta; None for a baseline trained without one."""
    metrics: dict[str, float]
    """Metric name -> value, as in the run's ``final`` line."""
    sliced: dict[str, list[float | None]]
    """Metric name -> value per popularity bucket, tail to head."""
    by_activity: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric name -> value per group of users, few ratings first."""
    floor: bool = False
    """Whether it is one of the simplest private algorithms, which the others must beat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """All that a run directory says."""

    config: JsonObject
    rounds: tuple[JsonObject, ...]
    """The ``round`` lines of metrics.jsonl; a repeated round (after a resume) counts once, its last line."""
    final: JsonObject
    """The last ``final`` line of metrics.jsonl, or empty."""
    baselines: tuple[Model, ...]
    beside: tuple[Model, ...] = ()
    """Other private algorithms on the same data."""
    page: str | None = None
    """Name of the board's page, where one lies in the directory."""

    @property
    def bucket_edges(self) -> list[float | None]:
        """Training counts between which the popularity buckets lie, n_buckets + 1 numbers, or empty."""
        return numbers(object_or_empty(self.final.get("sliced")).get("bucket_edges"))

    @property
    def activity_edges(self) -> list[float | None]:
        """Numbers of ratings between which the groups of users lie, n_groups + 1 numbers, or empty."""
        return numbers(object_or_empty(self.final.get("by_activity")).get(EDGES))


def read_run(run_dir: Path, lines: Sequence[Mapping[str, Any]]) -> RunRecord:
    """Read the files of a run directory, finished or not.

    Args:
        run_dir: where they are.
        lines: of its metrics.jsonl.

    Raises:
        InputError: a file is not what it should be.
    """
    events = [dict(line) for line in lines]
    final: JsonObject = next((event for event in reversed(events) if event.get("event") == "final"), {})
    kept, in_final = _read_object(run_dir / "baselines.json"), object_or_empty(final.get("baselines"))
    baselines = [
        model_from_json(name, object_or_empty(kept.get(name)) | object_or_empty(in_final.get(name)))
        for name in dict.fromkeys([*kept, *in_final])
    ]
    others = [
        model_from_json(name, object_or_empty(entry))
        for name, entry in _read_object(run_dir / "beside.json").items()
    ]
    return RunRecord(
        config=_read_object(run_dir / "config.json"),
        rounds=_rounds(events),
        final=final,
        baselines=tuple(model for model in baselines if model.metrics or model.sliced),
        beside=tuple(model for model in others if model.metrics),
        page=_PAGE if (run_dir / _PAGE).is_file() else None,
    )


def read_certificate(run_dir: Path) -> JsonObject:
    """The certificate of a run directory.

    Raises:
        InputError: the directory or its certificate is missing, or the file is not what it should be.
    """
    if not run_dir.is_dir():
        raise InputError(f"there is no run directory {run_dir}")
    certificate = _read_object(run_dir / "certificate.json")
    if not certificate:
        raise InputError(
            f"{run_dir} has no certificate.json: a report states a guarantee, so it needs the certificate; "
            "finish or resume the run first"
        )
    return certificate


def require_whole(log: Path) -> None:
    """Refuse a log that is damaged; a crash may leave half a last line behind, and that is left out.

    Raises:
        InputError: a line that is not JSON has others after it.
    """
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    for line_number, line in enumerate(lines[:-1], start=1):
        if line.strip():
            _parse(line, f"{log}, line {line_number}")


def model_from_json(name: str, entry: JsonObject) -> Model:
    """Read metrics (in the entry or under ``metrics``), slices (``sliced``, ``neighbours``) and ``by_activity``."""
    metrics = numeric_entries(entry) | numeric_entries(entry.get("metrics"))
    slices = object_or_empty(entry.get("sliced")) | object_or_empty(entry.get("neighbours"))
    groups = object_or_empty(entry.get("by_activity"))
    return Model(
        name=name,
        epsilon=number_or_none(entry.get("epsilon")),
        floor=entry.get("floor") is True,
        metrics={key: value for key, value in metrics.items() if key not in _NOT_METRICS},
        sliced={key: numbers(values) for key, values in slices.items() if key != "bucket_edges" and values},
        by_activity={key: numbers(values) for key, values in groups.items() if key != EDGES and values},
    )


def _rounds(events: list[JsonObject]) -> tuple[JsonObject, ...]:
    by_place = {
        (event.get("round"), event.get("stage")): event for event in events if event.get("event") == "round"
    }
    return tuple(sorted(by_place.values(), key=lambda event: number_or_none(event.get("round")) or 0.0))


def _read_object(path: Path) -> JsonObject:
    if not path.exists():
        return {}
    content = _parse(path.read_text(encoding="utf-8"), f"{path}")
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a JSON object")
    return content


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{place} is not valid JSON ({error.msg}); was it edited or cut off?") from error
