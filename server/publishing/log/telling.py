"""What there is to say of a log of boards, from its files alone, whether a server is running or not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.server.publishing.log.link import Found
from fedboard.server.publishing.log.log import STATE

if TYPE_CHECKING:
    from prometheus_client.core import Metric

NO_LOG = "no log of boards, so nothing shows whether everybody gets the same ones ([board] log in fleet.toml)"
_ALARMING = frozenset(str(one) for one in Found if one.is_alarming)


def told(folder: Path | None) -> dict[str, Any] | None:
    """``entries``, ``suffices`` (whether readers with the same policy take the last; None without a policy), and
    ``witnesses`` by name with what became of the last question; None where there is no log.
    """
    if folder is None:
        return None
    try:
        found = json.loads((folder / STATE).read_text(encoding="utf-8"))
        suffices, witnesses = found.get("suffices"), dict(found["witnesses"])
        return {"entries": int(found["entries"]), "suffices": suffices, "witnesses": witnesses}
    except (OSError, ValueError, KeyError, TypeError):
        return {"entries": 0, "suffices": None, "witnesses": {}}


def sentence(state: dict[str, Any] | None) -> str:
    """One line."""
    if state is None:
        return NO_LOG
    named: dict[str, str] = state["witnesses"]
    entries = f"log of boards: {state['entries']} entries"
    if not named:
        return f"{entries}, no witnesses that are asked"
    cosigned = [name for name, found in named.items() if found == Found.COSIGNED]
    others = "".join(f"; {name} {found}" for name, found in named.items() if found != Found.COSIGNED)
    enough = "enough" if state["suffices"] else "TOO FEW"
    asked = f"{len(cosigned)} of {len(named)} witnesses that are asked"
    return f"{entries}, the last cosigned by {asked}, {enough} for readers with the same policy{others}"


def trouble(state: dict[str, Any] | None) -> str | None:
    """The same where somebody must look: too few witnesses, or one that has seen another log."""
    if state is None:
        return None
    return (
        sentence(state)
        if _ALARMING & set(state["witnesses"].values()) or state["suffices"] is False
        else None
    )


def log_families(state: dict[str, Any] | None) -> "Iterator[Metric]":
    """The same as metrics; none where there is no log, and nothing of cosignatures where nobody is asked."""
    from prometheus_client.core import GaugeMetricFamily

    if state is None:
        return
    entries = state["entries"]
    yield GaugeMetricFamily("fedboard_board_log_entries", "Entries of the log of boards.", value=entries)
    if state["suffices"] is None:
        return
    yield GaugeMetricFamily(
        "fedboard_board_log_suffices",
        "Whether enough witnesses cosigned the last entry for readers with the same policy; 0 or 1.",
        value=float(state["suffices"]),
    )
    found = list(state["witnesses"].values())
    counts = {
        "cosigned": found.count(Found.COSIGNED),
        "alarming": sum(one in _ALARMING for one in found),
    }
    counts["missing"] = len(found) - sum(counts.values())
    witnesses = GaugeMetricFamily(
        "fedboard_board_log_witnesses",
        "Witnesses that are asked: who cosigned the last entry, who says that it saw another log, who did neither.",
        labels=("state",),
    )
    for name, count in counts.items():
        witnesses.add_metric((name,), count)
    yield witnesses
