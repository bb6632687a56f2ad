"""Real fleets on this machine, disturbed at random: what must hold afterwards, held against the files alone.

usage: python benchmarks/chaos.py [--runs 10] [--side-by-side 2] [--protocol trusted] [--seed 0] [--controls]
                                  [--folder FOLDER] [--json FILE]

Each run is a deployment over TLS: ``fedboard server``, three gateways with made-up users, three witnesses of whom
two must cosign each board before devices answer about it. While it trains, server, devices and witnesses are ended
with ``kill -9``, at random moments and at chosen steps (before and after questions, bookings, draws, publications,
answers kept, answers sent, files put in place); server and devices stop for seconds, leave and come back; a network
between devices and server cuts, loses, delays and holds up what is sent. Secure and seeded noise alternate. Then,
from the files that are left:

* ``double_releases``: a release that was booked twice, whose private noise was drawn twice, or two boards of one
  version, in the eyes of a reader who looks all the time or of any device;
* ``lost_boards``: a board that was published and is gone or changed;
* ``underbooked_ledgers``: a draw or a board that the run's ledger has not booked, or an answer that the server
  counted and its device has not booked in full;
* ``invalid_final_boards``: boards that cannot be read, do not follow each other, hold NaN, whose certificates,
  manifests or cosignatures fail, or of which the newest is not published;
* ``wrong_boards``: seeded noise, everybody in all rounds, and another last board than an undisturbed run's;
* ``lost_rounds``, and ``lost_unbooked`` among them: without anything booked, which is to be none.

``--controls`` breaks things on purpose, and each must be caught: a server that books after publishing, one that
draws again what is booked, and finished runs whose ledger, device record or boards are tampered with.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fleets.chaos_checks import KINDS, problems, tampers
from fleets.chaos_run import NODES, ChaosRun
from fleets.deployment import FleetPlan

from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem, load_problem

USERS, ROUNDS, EVENTS = 40, 6, 8
BROKEN = {
    "books late": ({"at": "late booking", "steps": 3}, "underbooked_ledgers"),
    "draws again": ({"at": "after: draw", "steps": 9}, "double_releases"),
}
"""Server -> step at which it ends itself once, in the middle of the training, and the count that must show it."""


@cache
def people() -> Problem:
    """Made-up users and items."""
    users = {"n_users": USERS * len(NODES), "n_items": 60, "mean_ratings_per_user": 12.0}
    return load_problem(parse_config({"data": {"synthetic": users}}))


def plan_for(noise: str, protocol: str) -> FleetPlan:
    """A fleet whose rounds take a second or two."""
    everybody = noise == "seeded"  # so that its last board is that of an undisturbed run
    quorum = (
        len(NODES) if everybody or protocol != "trusted" else 2
    )  # three are the fewest that a session takes
    return FleetPlan(
        nodes={name: people().train.rows(k * USERS, (k + 1) * USERS) for k, name in enumerate(NODES)},
        catalogue=people().catalogue,
        task={"algorithm": "adadpals", "settings": {"rank": 2, "rounds": ROUNDS}},
        privacy={"epsilon": 5.0, "delta": 1e-5, **({"seed": 0} if everybody else {})},
        rounds={"quorum": quorum, "deadline_seconds": 90.0 if everybody else 20.0},
        protocol={} if protocol == "trusted" else {"name": protocol},
    )


def one_run(folder: Path, number: int, options: argparse.Namespace, expected: str) -> dict[str, Any]:
    noise, place = ("secure", "seeded")[number % 2], folder / f"run-{number}"
    plan = plan_for(noise, options.protocol)
    run = ChaosRun(folder=place, plan=plan, seed=f"{options.seed} {number}", events=EVENTS)
    record = run.go()
    comparable = noise == "seeded" and record["ended"] == "finished" and record["everybody_in_all_rounds"]
    record["compared"] = comparable
    wrong = comparable and record["digest"] != expected
    record["problems"]["wrong_boards"] = ["another board than an undisturbed run's"] if wrong else []
    bad = [text for texts in record["problems"].values() for text in texts]
    print(
        f"run {number} ({noise}): {record['ended']} after {record['seconds']:.0f} s, "
        f"{sum(record['happened'].values())} events, {record['lost_rounds']} rounds lost"
        + "".join(f"\n  {text}" for text in [*bad, *record["left_processes"]]),
        flush=True,
    )
    if not bad and record["ended"] in ("finished", "lost preparation"):
        shutil.rmtree(run.folder)
    return record


def undisturbed(folder: Path, plan: FleetPlan) -> tuple[ChaosRun, dict[str, Any]]:
    """A run in which nothing happens; it must end well."""
    run = ChaosRun(folder=folder, plan=plan, seed="undisturbed", events=0)
    record = run.go()
    said = [text for texts in record["problems"].values() for text in texts]
    if record["ended"] != "finished" or said:
        raise SystemExit(f"the run without disturbances {record['ended']}: {said}; see {folder}")
    return run, record


def broken_servers(folder: Path, plan: FleetPlan) -> dict[str, list[str]]:
    """What was found of each."""
    found = {}
    for name, (step, kind) in BROKEN.items():
        place = folder / name.replace(" ", "-")
        run = ChaosRun(folder=place, plan=plan, seed=name, events=0, broken=name, die_at=step)
        found[name] = run.go()["problems"][kind]
        print(f"control {name}: {found[name][:1]}", flush=True)
    return found


def tampered_files(folder: Path, plan: FleetPlan) -> dict[str, list[str]]:
    """What was found in each of several copies of one finished run."""
    run, _ = undisturbed(folder / "whole", plan)
    shutil.copytree(run.folder, folder / "kept")
    found = {}
    for name, (tamper, kind) in tampers().items():
        shutil.rmtree(run.folder)
        shutil.copytree(folder / "kept", run.folder)
        tamper(run.left())
        found[name] = problems(run.left())[kind]
        print(f"control {name}: {found[name][:1]}", flush=True)
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all runs."""
    happened, link = Counter[str](), Counter[str]()
    for run in runs:
        happened.update(run["happened"])
        link.update(run["link"])
    summed = ("lost_rounds", "lost_unbooked", "boards")
    return {
        "runs": len(runs),
        "runs_finished": sum(run["ended"] == "finished" for run in runs),
        "lost_preparations": sum(run["ended"] == "lost preparation" for run in runs),
        **{kind: sum(len(run["problems"][kind]) for run in runs) for kind in (*KINDS, "wrong_boards")},
        "left_processes": sum(len(run["left_processes"]) for run in runs),
        **{key: sum(run[key] for run in runs) for key in summed},
        "seeded_boards_compared": sum(run["compared"] for run in runs),
        "happened": dict(happened.most_common()),
        "link": dict(link.most_common()),
    }


def main() -> int:
    """Run all, then look for what must hold; exit code 1 where it does not, or a planted fault was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--side-by-side", type=int, default=2, help="deployments at a time")
    parser.add_argument("--protocol", default="trusted", help="of one server")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--controls", action="store_true")
    parser.add_argument(
        "--folder", type=Path, help="where runs that show a problem are kept; default: nowhere"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        folder = (options.folder or Path(place)).absolute()
        _, record = undisturbed(folder / "undisturbed", plan_for("seeded", options.protocol))
        with ThreadPoolExecutor(options.side_by_side) as pool:
            runs = list(
                pool.map(
                    lambda number: one_run(folder, number, options, record["digest"]), range(options.runs)
                )
            )
        found = summary(runs)
        if options.controls:
            plan = plan_for("secure", options.protocol)
            found["controls"] = {**broken_servers(folder, plan), **tampered_files(folder, plan)}
    missed = [name for name, caught in found.get("controls", {}).items() if not caught]
    found |= {"controls_missed": missed, "seconds": time.monotonic() - started, "load": os.getloadavg()}
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps({**found, "each": runs}, indent=1))
    ended = found["runs_finished"] + found["lost_preparations"]
    zeros = (*KINDS, "wrong_boards", "left_processes", *(["lost_unbooked"] * (options.protocol == "trusted")))
    clean = not any(found[kind] for kind in zeros)
    return 0 if clean and ended == found["runs"] and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
