"""A week of a real fleet in minutes: what must not grow, get lost, or be released without a booking.

usage: python benchmarks/soak.py [--days 7] [--seconds-per-day 100] [--seed 0] [--controls] [--json FILE]

Server, devices, witnesses and board service run as processes over TLS. While rounds are made, devices join by
invitation and are removed, die and come back; parts of the server are ended with ``kill -9``, at random moments and
at chosen steps; the server is stopped, started, and upgraded from a state of the version before; a device of the
version before takes part; keys and roots are rotated, signatures are renewed; disks are full; clocks jump, and
every night for all. Somebody reads all the time, relying on two of three witnesses. Then, from what is left and was
seen:

* ``lost_boards``: a board that was made and is gone, changed, not offered, not in the log or not what a reader or a
  device was given; a reader, a device or a witness that went back;
* ``underbooked_ledgers``: noise that was drawn, or a board that is made of what is not booked, recomputed from the
  evidence; an answer that its device has not booked in full; a head in the log that the ledger never had;
* ``memory_growth_mb``: the most that a process grew by while rounds went by; ``memory`` counts those that grew by
  more than is stated (``fleets/soak/memory.py``);
* ``files``: kinds of files that took more than is stated of rounds, boards, members (``fleets/soak/files.py``);
* ``double_releases``, ``invalid_final_boards``: as in ``chaos.py``; ``went_wrong``: tracebacks, stops with an
  error, a fleet that does not go on; ``left_processes``.

``--controls`` runs a short week with faults in it, each of which must be found: a ServerApp that leaks 1 MB a round
and a file that grows as much, a board that is withheld, a ledger that lacks a booking. Clocks need a C compiler,
small disks ``unshare``; without them their part is left out, and the report says so. Ctrl-C ends a week early,
with its report.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fleets.soak.clocks import Clocks, build
from fleets.soak.disks import INSIDE, go_inside

PLACE = "SOAK_PLACE"
BAD = (
    *("lost_boards", "underbooked_ledgers", "double_releases", "invalid_final_boards", "memory", "files"),
    *("went_wrong", "left_processes"),
)
ROUNDS_PER_DAY = 20


def prepared() -> tuple[Path, Clocks]:
    """A place of its own, in a process that may mount disks there and whose clock can be set; starts this program
    again to get there.
    """
    if PLACE not in os.environ:
        place = Path(tempfile.mkdtemp(prefix="soak-"))
        os.environ[PLACE] = str(place)
        library = build(place)
        os.environ.update(Clocks(place / "clocks", library).environment("people"))
        go_inside(sys.argv)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    place = Path(os.environ[PLACE])
    library = place / "clock.so"
    clocks = Clocks(place / "clocks", library if library.exists() else None)
    clocks.environment("people")
    return place, clocks


def one_week(place: Path, clocks: Clocks, options: argparse.Namespace) -> dict[str, Any]:
    """The soak itself."""
    from fleets.soak.week import Week

    return Week(
        folder=place / "week",
        clocks=clocks,
        days=options.days,
        seconds_per_day=options.seconds_per_day,
        seed=options.seed,
        rounds=options.rounds or int(ROUNDS_PER_DAY * options.days) + 10,
    ).run()


def main() -> int:
    """Play the week, the planted faults, or both; exit code 1 for a loss or a missed fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--seconds-per-day", type=float, default=100.0, help="of this machine")
    parser.add_argument("--seed", type=int, default=0, help="of what happens, and when")
    parser.add_argument("--rounds", type=int, help=f"of the training; default: {ROUNDS_PER_DAY} a day")
    parser.add_argument("--controls", action="store_true", help="short weeks with planted faults, too")
    parser.add_argument("--only-controls", action="store_true", help="these alone")
    parser.add_argument("--keep", action="store_true", help="keep the files")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    place, clocks = prepared()
    found: dict[str, Any] = {}
    try:
        if not options.only_controls:
            found = one_week(place, clocks, options)
        if options.controls or options.only_controls:
            from fleets.soak.controls import controls

            found["controls"] = controls(place, clocks)
    finally:
        if options.keep:
            print(f"files are kept in {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)
    missed = [name for name, told in found.get("controls", {}).items() if not told]
    found |= {"controls_missed": missed, "load": os.getloadavg(), "inside": INSIDE in os.environ}
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 1 if missed or any(found.get(kind) for kind in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
