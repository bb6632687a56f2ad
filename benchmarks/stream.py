"""Ratings that do not fit into memory: the same boards, and what a user costs however many there are.

usage: python benchmarks/stream.py [--users 1e6] [--digest-users 20000] [--workers 2] [--algorithm residual]
           [--figure FILE.svg] [--json FILE]

Made-up people (``synthetic:users=N,items=20000,mean=15``), each run in a fresh process from data to board, without
baselines. Digests: a run in memory, with three sizes of blocks, with 1, 2 and 4 workers, and one that is killed
(SIGKILL) in the middle of a round and goes on. Sizes: 10^4 people, 10^5, ... up to ``--users``; in memory as far as
``--memory-users``. Memory is proportional set size of all processes of a run together. CPU seconds are of all
processes and of the rounds alone, without start, compiling and judging; ``users_per_cpu_second`` counts a user once
in each round.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from process_tree import peak_memory, tree_cpu_seconds

from fedboard.simulations.config import parse_config
from fedboard.simulations.engine import streamed
from fedboard.simulations.simulate import simulate
from fedboard.simulations.streams.merging import SpanSums

ITEMS, MEAN = 20_000, 15
BLOCKS = (1 << 20, 50_000, 997)
WORKERS = (1, 2, 4)
SMALLEST = 10_000
JUDGED = 2_000


class Told:
    """Listens to a run: CPU seconds of each round; may kill the process in the middle of one."""

    def __init__(self, kill_in: int | None) -> None:
        self.rounds: list[float] = []
        self._kill_in, self._began = kill_in, 0.0

    def planned(self, problem: object, rounds: object) -> None:
        self._began = tree_cpu_seconds(os.getpid())

    def progress(self, phase: str, done: int, total: int) -> None:
        if phase == "users" and len(self.rounds) == self._kill_in and 2 * done > total:
            os.kill(os.getpid(), signal.SIGKILL)

    def round_finished(self, line: Mapping[str, Any]) -> None:
        now = tree_cpu_seconds(os.getpid())
        self.rounds.append(now - self._began)
        self._began = now


def child(asked: Mapping[str, Any]) -> dict[str, Any]:
    """One run, in this process."""
    told, summed = Told(asked.get("kill_in")), []
    checked = streamed.require_everybody

    def watching(sums: SpanSums, n_users: int) -> None:
        summed.append(sums.n_ratings)
        checked(sums, n_users)

    began = time.monotonic()
    with mock.patch.object(streamed, "require_everybody", watching):
        result = simulate(
            parse_config(asked["config"]),
            Path(asked["out"]),
            resume=asked["resume"],
            listener=told,
            report=False,
        )
    return {
        "digest": result.board.digest,
        "ratings": max(summed, default=None),
        "rounds": len(told.rounds),
        "cpu_seconds": sum(told.rounds),
        "wall_seconds": time.monotonic() - began,
        "metrics": dict(result.final["metrics"]),
    }


def config_of(users: int, arguments: argparse.Namespace, **run: Any) -> dict[str, Any]:
    settings = {} if arguments.rounds is None else {"rounds": arguments.rounds}
    settings |= {} if arguments.rank is None else {"rank": arguments.rank}
    return {
        "algorithm": arguments.algorithm,
        "data": {"source": f"synthetic:users={users},items={ITEMS},mean={MEAN}"},
        "settings": settings,
        "run": {"baselines": False, "evaluate_rounds": False, **run},
    }


def run(
    config: Mapping[str, Any], out: Path, *, resume: bool = False, kill_in: int | None = None
) -> dict[str, Any]:
    """The same in a fresh process, with the most memory that it and its workers held; empty where it was killed."""
    asked = {"config": config, "out": str(out), "resume": resume, "kill_in": kill_in}
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", json.dumps(asked)], stdout=subprocess.PIPE, text=True
    )
    peak = peak_memory(process)
    told = process.stdout.read() if process.stdout else ""
    if process.returncode == -signal.SIGKILL and kill_in is not None:
        return {}
    if process.returncode != 0:
        raise SystemExit(f"a run ended with exit code {process.returncode}: {config}")
    return {**json.loads(told.splitlines()[-1]), "peak_memory_gb": round(peak, 3)}


def digests(arguments: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Of the last board, by how it came about."""
    users, found = int(arguments.digest_users), {}
    found["in memory"] = run(config_of(users, arguments, streamed=False), folder / "memory")["digest"]
    for block in BLOCKS:
        config = config_of(users, arguments, streamed=True, block_ratings=block)
        found[f"blocks of {block} ratings"] = run(config, folder / f"block-{block}")["digest"]
    for workers in WORKERS:
        config = config_of(users, arguments, streamed=True, workers=workers)
        found[f"{workers} workers"] = run(config, folder / f"workers-{workers}")["digest"]
    config = config_of(users, arguments, streamed=True, workers=2, checkpoint_users=1)
    if run(config, folder / "killed", kill_in=2):
        raise SystemExit("the run that was to be killed was not")
    if not (folder / "killed" / "partial-sums.secret").exists():
        raise SystemExit("the run that was killed had kept nothing of its round")
    found["killed in the third round, and gone on with"] = run(config, folder / "killed", resume=True)[
        "digest"
    ]
    return found


def sizes(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What runs of more and more people take."""
    found, users = [], SMALLEST
    while users <= arguments.users:
        config = config_of(
            users, arguments, streamed=True, workers=arguments.workers, judged_users=min(JUDGED, users)
        )
        line = {"users": users, "way": "streamed", **run(config, folder / f"streamed-{users}")}
        line["users_per_cpu_second"] = round(users * line["rounds"] / line["cpu_seconds"])
        found.append(line)
        told(line)
        if users <= arguments.memory_users:
            config = config_of(users, arguments, streamed=False, workers=arguments.workers)
            line = {"users": users, "way": "in memory", **run(config, folder / f"memory-{users}")}
            line["users_per_cpu_second"] = round(users * line["rounds"] / line["cpu_seconds"])
            found.append(line)
            told(line)
        users *= 10
    return found


def told(line: Mapping[str, Any]) -> None:
    ratings = "" if line["ratings"] is None else f", {line['ratings']:,} training ratings"
    print(
        f"{line['way']:>9} {line['users']:>11,} users{ratings}: {line['peak_memory_gb']:.2f} GB, "
        f"{line['wall_seconds']:.1f} s, {line['cpu_seconds']:.1f} CPU s in {line['rounds']} rounds, "
        f"{line['users_per_cpu_second']:,} users per CPU second",
        flush=True,
    )


def draw(lines: Sequence[Mapping[str, Any]], place: Path) -> None:
    """Memory against the number of ratings."""
    from fedboard.simulations.drawing.svg import house_style, new_figure, settle

    with house_style():
        figure = new_figure(7.0, 4.0)
        axes = figure.add_subplot()
        for way, mark in (("streamed", "o-"), ("in memory", "s--")):
            points = [(MEAN * line["users"], line["peak_memory_gb"]) for line in lines if line["way"] == way]
            if points:
                axes.plot(*zip(*points, strict=True), mark, label=way)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("ratings")
        axes.set_ylabel("memory of all processes, GB")
        axes.legend()
        settle(figure)
        figure.savefig(place, facecolor="white", metadata={"Date": None})


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=float, default=1e6, help="the most people; default 1e6")
    parser.add_argument("--digest-users", type=float, default=20_000, help="0: no digests")
    parser.add_argument("--memory-users", type=float, default=1e5, help="the most people in memory")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--algorithm", default="residual")
    parser.add_argument("--rank", type=int, help="other than tuned")
    parser.add_argument("--rounds", type=int, help="other than tuned")
    parser.add_argument("--figure", type=Path, help="memory against data, as SVG")
    parser.add_argument("--json", type=Path, help="write results here")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.child is not None:
        print(json.dumps(child(json.loads(arguments.child))))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        equal = None
        if arguments.digest_users:
            found = digests(arguments, folder)
            equal = len(set(found.values())) == 1
            for how, digest in found.items():
                print(f"{digest[:16]}  {how}", flush=True)
        lines = sizes(arguments, folder)
    if arguments.figure is not None:
        draw(lines, arguments.figure)
    largest = [line for line in lines if line["way"] == "streamed"][-1]
    keys = ("users", "ratings", "peak_memory_gb", "users_per_cpu_second")
    summary = {**{key: largest[key] for key in keys}, "digest_equal": equal, "sizes": lines}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")
    if equal is False:
        raise SystemExit("the boards are not the same")


if __name__ == "__main__":
    main()
