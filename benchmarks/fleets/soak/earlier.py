"""What servers of the version before left behind."""

from typing import Any


def as_before(job: dict[str, Any]) -> dict[str, Any]:
    """A job as servers wrote it before it had sections: format 1, all keys on one level."""
    privacy, rounds, protocol = job["privacy"], dict(job["rounds"]), job["protocol"]
    participation = privacy["participation"]
    rounds.pop("most_lost")
    kept = ("folder", "first_board", "question_key", "dataset", "users", "backend", "features", "nodes")
    return {
        **{name: job[name] for name in kept},
        **{
            name: privacy[name]
            for name in ("epsilon", "delta", "adjacency", "noise", "seed", "population", "lineage")
        },
        **{name: participation[name] for name in ("probability", "size", "cohorts")},
        **rounds,
        "assumptions": list(job["assumptions"]),
        "protocol": protocol["name"],
        "protocol_settings": protocol["settings"],
        "step_seconds": protocol["step_seconds"],
        "helper": protocol["helper"],
    }
