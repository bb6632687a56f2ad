"""What ``soak.py`` must find: a short week of a server with faults, and one whose ledger is short of a booking."""

from pathlib import Path

from fleets.soak.audit import LOST, UNDERBOOKED, drop_booking
from fleets.soak.clocks import Clocks
from fleets.soak.plan import WITHHELD
from fleets.soak.week import Week

_SECONDS = 120.0


def controls(place: Path, clocks: Clocks) -> dict[str, list[str]]:
    """What was found of each; nothing is a miss."""
    week = Week(
        folder=place / "controls",
        clocks=clocks,
        days=1.0,
        seconds_per_day=_SECONDS,
        seed=0,
        rounds=WITHHELD + 8,
        faults="leaks,grows,withholds",
        happens=False,
        broken=lambda week: drop_booking(week.fleet.fleet.state.run),
    )
    week.run()
    found = week.problems
    told = {
        "a leak of 1 MB a round": _about(found["memory"], "ServerApp"),
        "a file that grows": _about(found["files"], "grows.log"),
        "a board is withheld": _about(found[LOST], f"board {WITHHELD} was made and is not offered"),
        "a booking is missing": _about(found[UNDERBOOKED], "not booked"),
    }
    for name, sentences in told.items():
        print(f"control {name}: {sentences[:1]}", flush=True)
    return told


def _about(found: list[str], words: str) -> list[str]:
    return [sentence for sentence in found if words in sentence]
