"""Keep what a benchmark printed, so that the pages' figures can be held against it.

usage: python docs/results/store.py anywhere anywhere.json      # of benchmarks/anywhere.py --json
       python docs/results/store.py anywhere part.json --part   # the same for --algorithms A,B --epsilon E alone
       python docs/results/store.py round round.json            # of benchmarks/round.py --json
       python docs/results/store.py audit a.json b.json ...     # of fedboard audit --repeat N --json, each

Writes docs/results/NAME.json: the numbers, the command that printed them, what they are about, what was tuned on
what. Nothing in it is about a person: all are simulations. With --part, numbers that are kept already give way to
those of a later call for some algorithms, where their code alone has changed; the file says which and when.
"""

import argparse
import json
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ABOUT = {
    "anywhere": {
        "command": "python benchmarks/anywhere.py --data DIR --json anywhere.json",
        "on": "seven public sets of ratings and three made-up ones, three noise seeds, one split",
        "tuned": "test ratings of all of them were looked at while residual was built, and of seven when the item "
        "ridge of AdaDPALS at epsilon 5 and 20 was chosen; no constant is a set's own",
        "simulated": True,
    },
    "round": {
        "command": "python benchmarks/round.py --json round.json",
        "on": "made-up ratings: 70 000 users, 10 700 items, 10M ratings; two cores of an AMD EPYC (Zen 5)",
        "tuned": "nothing",
        "simulated": True,
    },
    "audit": {
        "command": "fedboard audit --algorithm residual --epsilon E --repeat 20 --json",
        "on": "made-up ratings: 4 000 users, 3 000 items, seeded noise, delta 1e-5",
        "tuned": "nothing",
        "simulated": True,
    },
}
_OF_A_RUN = ("algorithm", "epsilon_claimed", "delta", "adjacency", "canaries", "users", "items", "violated")


def of_audits(found: list[dict[str, Any]]) -> dict[str, Any]:
    """By algorithm and claim: the lower bounds of all seeds, and their median."""
    runs = []
    for one in sorted(found, key=lambda one: (one["algorithm"], one["epsilon_claimed"])):
        bounds = one["repeat"]["epsilon_lower_bounds"]
        told = {name: one[name] for name in _OF_A_RUN}
        median = statistics.median(bounds)
        runs.append(
            {**told, "median": median, "share": median / one["epsilon_claimed"], "lower_bounds": bounds}
        )
    return {"runs": runs}


def with_a_part(kept: dict[str, Any], part: dict[str, Any], stored: str) -> dict[str, Any]:
    """What is kept of a benchmark on sets, with a later call's numbers for some algorithms."""
    sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
    from accuracy.anywhere.summary import with_part

    key = "rmse" if part["rmse"] else "recall"
    algorithms = sorted({name for of_set in part[key].values() for name in of_set})
    told = {"algorithms": algorithms, "epsilon": part["asked"]["epsilon"], "stored": stored}
    parts = [*kept.get("parts", []), told]
    return {**kept, **ABOUT["anywhere"], "parts": parts, "numbers": with_part(kept["numbers"], part)}


def main() -> None:
    """Read, trim, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=ABOUT)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--part", action="store_true", help="of anywhere: lay it over what is kept")
    asked = parser.parse_args()
    found = [json.loads(path.read_text(encoding="utf-8")) for path in asked.files]
    place, stored = HERE / f"{asked.name}.json", datetime.now(UTC).strftime("%Y-%m-%d")
    if asked.part and asked.name != "anywhere":
        parser.error("--part is for anywhere alone")
    if asked.part:
        told = with_a_part(json.loads(place.read_text(encoding="utf-8")), found[0], stored)
    else:
        numbers = of_audits(found) if asked.name == "audit" else found[0]
        told = {**ABOUT[asked.name], "stored": stored, "numbers": numbers}
    place.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(place)


if __name__ == "__main__":
    main()
