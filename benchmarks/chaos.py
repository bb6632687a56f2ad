"""Real fleets on this machine, disturbed at random: what must hold afterwards, held against the files alone.

usage: python benchmarks/chaos.py [--runs 10] [--side-by-side 3] [--seed 0] [--controls] [--json FILE]

Each run is a deployment over TLS: supervisor, SuperLink, ServerApp, proxy, three gateways with made-up users. While
it trains, clients, supervisor, SuperLink, ServerApp and proxy are ended with ``kill -9``, at random moments and at
chosen steps (before and after bookings, draws, publications, answers kept, answers sent, files put in place);
clients leave, come back and stop for seconds; a network between devices and proxy loses, cuts, delays, doubles and
replays requests. Secure and seeded noise alternate. Then, from the files that are left:

* ``double_releases``: a release that was booked twice, whose private noise was drawn twice, or two boards of one
  version, in the eyes of a reader who looks all the time or of any device;
* ``lost_boards``: a board that was published and is gone or changed;
* ``underbooked_ledgers``: a draw or a board that the run's ledger has not booked, or an answer that the server
  counted and its device has not booked in full;
* ``invalid_final_boards``: boards that cannot be read, do not follow each other, hold NaN, or whose certificates
  fail;
* ``wrong_boards``: seeded noise, everybody in all rounds, and another last board than an undisturbed run's.

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

import msgspec
from fleets.chaos.checks import KINDS
from fleets.chaos.controls import broken_servers, tampered_files
from fleets.chaos.run import NODES, ChaosRun
from fleets.deployment import FleetPlan

from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.preparing import prepare
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem, load_problem

USERS, ROUNDS, EVENTS = 40, 6, 8


@cache
def people() -> Problem:
    """Made-up users and items."""
    users = {"n_users": USERS * len(NODES), "n_items": 60, "mean_ratings_per_user": 12.0}
    return load_problem(parse_config({"data": {"synthetic": users}}))


def plan_for(noise: str) -> FleetPlan:
    """A fleet whose rounds take well under a second."""
    everybody = noise == "seeded"  # so that its last board is that of an undisturbed run
    return FleetPlan(
        nodes={name: people().train.rows(k * USERS, (k + 1) * USERS) for k, name in enumerate(NODES)},
        catalogue=people().catalogue,
        task={"algorithm": "adadpals", "settings": {"rank": 2, "rounds": ROUNDS}},
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": noise},
        rounds={
            "quorum": len(NODES) if everybody else 2,
            "deadline_seconds": 90.0 if everybody else 20.0,
            "grace_seconds": 2.0,
        },
    )


def undisturbed(folder: Path) -> str:
    """Digest of the last board of a seeded run, in this process."""
    from fedboard.server.fleet.running import run_job
    from fedboard.simulations.flower.cohorts import CohortNodes, write_cohorts
    from fedboard.simulations.flower.in_process import local_nodes

    run = ChaosRun(folder=folder, plan=plan_for("seeded"), seed="", events=0)
    prepare(run.settings)
    job = msgspec.structs.replace(Job.load(run.fleet.state.job), enrolled=None)
    write_cohorts(folder / "cohorts", people().train, len(NODES))
    server = QuestionKey.read(Path(job.question_key)).public.hex
    config = {"cohorts": str(folder / "cohorts"), "kernels": "numpy", "server": server}
    cohorts = CohortNodes.of({**config, "noise": "secure", "seed": 0})
    return run_job(local_nodes(cohorts, len(NODES), job.largest_cohort), job).digest


def one_run(folder: Path, number: int, seed: int, expected: str) -> dict[str, Any]:
    noise = ("secure", "seeded")[number % 2]
    run = ChaosRun(
        folder=folder / f"run-{number}", plan=plan_for(noise), seed=f"{seed} {number}", events=EVENTS
    )
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


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all runs."""
    happened: Counter[str] = Counter()
    link: Counter[str] = Counter()
    for run in runs:
        happened.update(run["happened"])
        link.update(run["link"])
    return {
        "runs": len(runs),
        "runs_finished": sum(run["ended"] == "finished" for run in runs),
        "lost_preparations": sum(run["ended"] == "lost preparation" for run in runs),
        **{kind: sum(len(run["problems"][kind]) for run in runs) for kind in (*KINDS, "wrong_boards")},
        "left_processes": sum(len(run["left_processes"]) for run in runs),
        "lost_rounds": sum(run["lost_rounds"] for run in runs),
        "boards": sum(run["boards"] for run in runs),
        "seeded_boards_compared": sum(run["compared"] for run in runs),
        "happened": dict(happened.most_common()),
        "link": dict(link.most_common()),
    }


def main() -> int:
    """Run all, then look for what must hold; exit code 1 where it does not, or a planted fault was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--side-by-side", type=int, default=3, help="deployments at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--controls", action="store_true")
    parser.add_argument(
        "--folder", type=Path, help="where runs that show a problem are kept; default: nowhere"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        folder = options.folder or Path(place)
        expected = undisturbed(folder / "undisturbed")
        with ThreadPoolExecutor(options.side_by_side) as pool:
            runs = list(
                pool.map(lambda number: one_run(folder, number, options.seed, expected), range(options.runs))
            )
        found = summary(runs)
        if options.controls:
            plan = plan_for("secure")
            found["controls"] = {**broken_servers(folder, plan), **tampered_files(folder, plan)}
    missed = [name for name, caught in found.get("controls", {}).items() if not caught]
    found |= {"controls_missed": missed, "seconds": time.monotonic() - started, "load": os.getloadavg()}
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps({**found, "each": runs}, indent=1))
    ended = found["runs_finished"] + found["lost_preparations"]
    clean = not any(found[kind] for kind in (*KINDS, "wrong_boards", "left_processes"))
    return 0 if clean and ended == found["runs"] and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
