"""Keep what a benchmark printed, so that the pages' figures can be held against it.

usage: python docs/results/store.py anywhere anywhere.json      # of benchmarks/anywhere.py --json
       python docs/results/store.py round round.json            # of benchmarks/round.py --json
       python docs/results/store.py audit a.json b.json ...     # of fedboard audit --repeat N --json, each

Writes docs/results/NAME.json: the numbers, the command that printed them, what they are about, what was tuned on
what. Nothing in it is about a person: all are simulations.
"""

import argparse
import json
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ABOUT = {
    "anywhere": {
        "command": "python benchmarks/anywhere.py --data DIR --json anywhere.json",
        "on": "seven public sets of ratings and three made-up ones, three noise seeds, one split",
        "tuned": "test ratings of all of them were looked at while residual was built; no constant is a set's own",
        "simulated": True,
    },
    "round": {
        "command": "python benchmarks/round.py --json round.json",
        "on": "made-up ratings: 70 000 users, 10 700 items, 10M ratings; two cores of an AMD EPYC (Zen 4)",
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


def main() -> None:
    """Read, trim, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=ABOUT)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    found = [json.loads(path.read_text(encoding="utf-8")) for path in asked.files]
    numbers = of_audits(found) if asked.name == "audit" else found[0]
    told = {**ABOUT[asked.name], "stored": datetime.now(UTC).strftime("%Y-%m-%d"), "numbers": numbers}
    place = HERE / f"{asked.name}.json"
    place.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(place)


if __name__ == "__main__":
    main()
