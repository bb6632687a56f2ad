"""What a simulation's live page has beyond a fleet's: numbers on held-out ratings, which are not private."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedboard.server.operating.log_lines import is_number, number_of

_TRAFFIC = ("mean", "p50", "p95", "max")


def simulation_numbers(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Metrics and traffic from the lines of ``metrics.jsonl``; None where there are none yet.

    Not private: for simulations only.
    """
    rounds = [_of_round(line) for line in lines if line.get("event") == "round"]
    final = next((line for line in reversed(lines) if line.get("event") == "final"), None)
    if not rounds and final is None:
        return None
    return {"rounds": rounds, "final": [] if final is None else _models(final)}


def _of_round(line: Mapping[str, Any]) -> dict[str, Any]:
    up = line.get("bytes_up_per_client")
    traffic = up if isinstance(up, Mapping) else {}
    return {
        "number": int(number_of(line.get("round"))),
        "stage": str(line.get("stage", "")),
        "seconds": number_of(line.get("seconds")),
        "metrics": _numbers(line.get("metrics")),
        "rejected_rows": int(number_of(line.get("rejected_rows"))),
        "bytes_up": {name: number_of(traffic.get(name)) for name in _TRAFFIC} if traffic else None,
        "bytes_down": number_of(line.get("bytes_down_per_client")) or None,
    }


def _models(final: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = [{"model": "this run", "metrics": _numbers(final.get("metrics"))}]
    others = final.get("baselines")
    for name, metrics in others.items() if isinstance(others, Mapping) else ():
        found.append({"model": f"{name} (no privacy)", "metrics": _numbers(metrics)})
    return found


def _numbers(found: Any) -> dict[str, float]:
    if not isinstance(found, Mapping):
        return {}
    return {str(name): float(value) for name, value in found.items() if is_number(value)}
