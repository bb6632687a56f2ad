"""From rows to the file of numbers and the table: one place that says what a ratio is."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers_parts.environments import SkippedError
from peers_parts.registry import OURS, PEERS, ours_of

RATIO_IS = (
    "training seconds of the peer over ours, same job and same run: above 1 ours is faster; "
    "cpu_ratio: the same of processor seconds"
)
QUALITY = {"explicit": "rmse", "implicit": "recall@20", "round": "rmse"}


def assembled(
    jobs: Sequence[tuple[str, dict[str, Any]]],
    rows: Sequence[dict[str, Any]],
    skipped: dict[str, SkippedError],
    *,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Everything for the file.

    Args:
        jobs: name and specification, in the order in which they ran.
        rows: each with ``job``, ``peer``, ``seconds``, ``cpu_seconds``, ``peak_memory_mb``, ``quality``.
        skipped: by ``peer`` where nothing of it ran, by ``job/peer`` where one job failed.
        settings: of the run.

    Returns:
        ``seconds.<peer>`` and so on are those of each peer's last job, the largest, which ``headline`` names;
        ``rows`` has all.
    """
    found: dict[str, Any] = {
        "machine": machine(),
        **settings,
        "ratio_is": RATIO_IS,
        "jobs": dict(jobs),
        "rows": [
            row | {"ratio": ratio_of(row, rows, "seconds"), "cpu_ratio": ratio_of(row, rows, "cpu_seconds")}
            for row in rows
        ],
        "skipped": {name: {"step": why.step, "reason": why.reason} for name, why in skipped.items()},
    }
    keys = ("headline", "seconds", "cpu_seconds", "peak_memory_mb", "quality", "ratio", "cpu_ratio")
    found |= {key: {} for key in keys}
    for row in found["rows"]:  # later jobs are larger and replace earlier ones
        peer = row["peer"]
        found["headline"][peer] = row["job"]
        found["seconds"][peer] = row["seconds"]["fit"]
        found["cpu_seconds"][peer] = row["cpu_seconds"]["fit"]
        found["peak_memory_mb"][peer] = row["peak_memory_mb"]
        found["quality"][peer] = row["quality"]
        for key in ("ratio", "cpu_ratio"):
            if row[key] is not None and not peer.startswith(f"{OURS}-"):
                found[key][peer] = row[key]
    return found


def ratio_of(row: dict[str, Any], rows: Sequence[dict[str, Any]], seconds: str) -> float | None:
    """As ``RATIO_IS`` says; None where ours has no numbers for this job."""
    ours = ours_of(row["job"].partition(".")[0])
    same = [one for one in rows if one["job"] == row["job"] and one["peer"] == ours]
    return row[seconds]["fit"] / same[0][seconds]["fit"] if same and same[0][seconds]["fit"] > 0 else None


def least(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of several runs of one row, the one that trained in the least seconds; how often and from what to what."""
    best = min(runs, key=lambda run: float(run["seconds"]["fit"]))
    fits = [run["seconds"]["fit"] for run in runs]
    return best | {"runs": len(runs), "slowest_fit": max(fits)}


def machine() -> dict[str, Any]:
    """The processor by its name, cores, Python, and the load now."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    said = dict(tuple(map(str.strip, line.split(":", 1))) for line in lines if ":" in line)
    family = f"family {said.get('cpu family', '?')}, model {said.get('model', '?')}"
    return f"{said.get('model name', platform.processor())} ({family})"


def table(found: dict[str, Any]) -> str:
    """Markdown: a table for each job, ours first, then by seconds; what was skipped below."""
    told = {peer.name: peer for peer in PEERS}
    lines: list[str] = []
    for job in found["jobs"]:
        kind = job.partition(".")[0]
        metric, rows = QUALITY[kind], [row for row in found["rows"] if row["job"] == job]
        rows.sort(key=lambda row: (not row["peer"].startswith(OURS), row["seconds"]["fit"]))
        lines += [
            f"{job}",
            "",
            f"| | training, s | over ours | processor s | over ours | with import, s | peak MB | {metric} |",
            "|---|---|---|---|---|---|---|---|",
            *(_line(row, metric, told[row["peer"]].told) for row in rows),
            "",
        ]
    lines += [f"- skipped: {name}: {why['step']}: {why['reason']}" for name, why in found["skipped"].items()]
    return "\n".join(lines)


def _line(row: dict[str, Any], metric: str, told: str) -> str:
    seconds = row["seconds"]
    whole = seconds["import"] + seconds["convert"] + seconds["fit"]
    peers = not row["peer"].startswith(OURS)
    over, cpu_over = (
        f"{row[key]:.3g}" if peers and row[key] is not None else "" for key in ("ratio", "cpu_ratio")
    )
    cells = (
        f"{row['peer']} {row['version']}: {told}",
        f"{seconds['fit']:.3g}",
        over,
        f"{row['cpu_seconds']['fit']:.3g}",
        cpu_over,
        f"{whole:.3g}",
        f"{row['peak_memory_mb']:.0f}",
        f"{row['quality'][metric]:.4f}",
    )
    return f"| {' | '.join(cells)} |"
