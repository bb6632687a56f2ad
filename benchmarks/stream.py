"""Ratings that do not fit into memory: the same boards, and what a user costs however many there are.

usage: python benchmarks/stream.py [--users 1e6] [--from 1e4] [--digest-users 20000] [--memory-users 1e5]
           [--workers 2] [--algorithm residual] [--folder RUNS] [--minutes M] [--figure FILE.svg] [--json FILE]

Made-up people (``synthetic:users=N,items=20000,mean=15``), each run in a fresh process from data to board, without
baselines. Digests: a run in memory, with three sizes of blocks, with 1, 2 and 4 workers, and one that is killed
(SIGKILL) in the middle of a round and goes on. Sizes: ``--from`` people, ten times as many, ... up to ``--users``;
in memory as far as ``--memory-users``, which must give the streamed run's board. Memory is proportional set size
of all processes of a run together. CPU seconds are of all processes and of whole rounds alone, without start,
compiling and judging; ``users_per_cpu_second`` counts a user once in each round.

JSON and figure are written after each run, and the JSON every half a minute of a long one. With ``--folder`` runs
are kept there: cut short by Ctrl-C, a signal or ``--minutes``, the same command goes on within the round (users
whose sums were kept are not asked again; the CPU seconds of such a round are then not counted).
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process_tree import memory
from stream_parts.child import bytes_read, run_asked
from stream_parts.kept import Kept
from stream_parts.telling import costs, draw, flatness, said

ITEMS, MEAN = 20_000, 15
BLOCKS = (1 << 20, 50_000, 997)
WORKERS = (1, 2, 4)
JUDGED = 2_000
_LOOKS, _SELDOM, _TELLS = 0.05, 1.0, 30.0
"""Seconds between looks at memory, in the first ten seconds of a run and later; and between words on a long run."""

_FEWEST_DIGESTED = 5_000


class OutOfTimeError(Exception):
    """The minutes that were allowed are over."""


@dataclass(slots=True)
class Benchmark:
    """What is asked, and where it is kept."""

    arguments: argparse.Namespace
    kept: Kept
    until: float
    digests: dict[str, str] = field(default_factory=dict)
    names: list[tuple[str, int, str]] = field(default_factory=list)
    """(name, users, way) of the runs of different sizes, as they are begun."""

    def config(self, users: int, **run: Any) -> dict[str, Any]:
        asked = self.arguments
        settings = {} if asked.rounds is None else {"rounds": asked.rounds}
        settings |= {} if asked.rank is None else {"rank": asked.rank}
        return {
            "algorithm": asked.algorithm,
            "data": {"source": f"synthetic:users={users},items={ITEMS},mean={MEAN}"},
            "settings": settings,
            "run": {"baselines": False, "evaluate_rounds": False, **run},
        }

    def run(self, name: str, config: Mapping[str, Any], *, kill_in: int | None = None) -> dict[str, Any]:
        """The run of that name in a fresh process, gone on with where one was cut short; or what came of it."""
        known = self.kept.of(name)
        if known.get("finished"):
            return known
        out = self.kept.run(name)
        asked = {
            "config": config,
            "out": str(out),
            "record": str(self.kept.record(name)),
            "resume": (out / "config.toml").exists() or (out / "config.json").exists(),
            "kill_in": kill_in,
        }
        command = [sys.executable, __file__, "--child", json.dumps(asked)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            self._watch(process, name)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        told = process.stdout.read() if process.stdout else ""
        if process.returncode == -signal.SIGKILL and kill_in is not None:
            return {}
        if process.returncode != 0:
            raise SystemExit(f"a run ended with exit code {process.returncode}: {config}")
        return self.kept.tell(name, **json.loads(told.splitlines()[-1]), finished=True)

    def _watch(self, process: "subprocess.Popen[str]", name: str) -> None:
        """Until it ends, or time is over; what it holds and reads is written down now and then."""
        peak, read, began = 0.0, 0, time.monotonic()
        told_at = began
        while process.poll() is None:
            now = time.monotonic()
            peak, read = max(peak, memory(process.pid)), max(read, bytes_read(process.pid))
            if now - told_at > _TELLS:
                told_at = now
                self.kept.tell(name, peak_memory_gb=round(peak, 3), bytes_read=read)
                self.write()
            if now > self.until:
                self.kept.tell(name, peak_memory_gb=round(peak, 3), bytes_read=read)
                raise OutOfTimeError
            time.sleep(_LOOKS if now - began < 10 else _SELDOM)
        self.kept.tell(name, peak_memory_gb=round(peak, 3), bytes_read=read)

    def same_boards(self) -> None:
        """Last boards, by how they came about."""
        users = int(self.arguments.digest_users)
        ways: dict[str, tuple[str, dict[str, Any]]] = {"in memory": ("memory", {"streamed": False})}
        for block in BLOCKS:
            ways[f"blocks of {block} ratings"] = (
                f"block-{block}",
                {"streamed": True, "block_ratings": block},
            )
        for workers in WORKERS:
            ways[f"{workers} workers"] = (f"workers-{workers}", {"streamed": True, "workers": workers})
        for how, (name, run) in ways.items():
            self._found(how, self.run(name, self.config(users, **run)))
        config = self.config(users, streamed=True, workers=2, checkpoint_users=1)
        if not self.kept.of("killed").get("finished"):
            if self.run("killed", config, kill_in=2):
                raise SystemExit("the run that was to be killed was not")
            if not (self.kept.run("killed") / "partial-sums.secret").exists():
                raise SystemExit("the run that was killed had kept nothing of its round")
        self._found("killed in the third round, and gone on with", self.run("killed", config))

    def _found(self, how: str, result: Mapping[str, Any]) -> None:
        self.digests[how] = result["digest"]
        print(f"{result['digest'][:16]}  {how}", flush=True)
        self.write()

    def sizes(self) -> None:
        """What runs of more and more people take."""
        asked, users = self.arguments, int(self.arguments.first)
        while users <= asked.users:
            judged = min(JUDGED, users)
            self._size(users, "streamed", streamed=True, workers=asked.workers, judged_users=judged)
            if users <= asked.memory_users:
                self._size(users, "in memory", streamed=False, workers=asked.workers)
            users *= 10

    def _size(self, users: int, way: str, **run: Any) -> None:
        name = f"{way.replace(' ', '-')}-{users}"
        self.names.append((name, users, way))
        self.run(name, self.config(users, **run))
        print(said(self.lines()[-1]), flush=True)
        self.write()

    def lines(self) -> list[dict[str, Any]]:
        """All runs of different sizes so far."""
        found = []
        for name, users, way in self.names:
            told, known = self.kept.rounds(name), self.kept.of(name)
            line = {"users": users, "way": way, "finished": False, "peak_memory_gb": 0.0, "bytes_read": 0}
            found.append({**line, **known, **costs(users, told), "told": told})
        return found

    def equal(self) -> bool | None:
        """Whether all boards that must be the same are; None where there are none to compare."""
        pairs = {users: set[str]() for _, users, _ in self.names}
        for line in self.lines():
            if "digest" in line:
                pairs[line["users"]].add(line["digest"])
        compared = [set(self.digests.values())] if len(self.digests) > 1 else []
        both = [users for _, users, way in self.names if way == "in memory"]
        compared += [pairs[users] for users in both]
        return all(len(digests) == 1 for digests in compared) if compared else None

    def write(self) -> None:
        """JSON and figure as of now."""
        lines = self.lines()
        streamed = [line for line in lines if line["way"] == "streamed" and line["rounds"]]
        keys = ("users", "ratings", "peak_memory_gb", "users_per_cpu_second", "bytes_read", "finished")
        summary: dict[str, Any] = {key: streamed[-1][key] for key in keys} if streamed else {}
        summary |= {"digest_equal": self.equal(), "digests": self.digests}
        summary |= {"flatness": flatness(lines), "sizes": lines}
        if self.arguments.json is not None:
            self.arguments.json.write_text(json.dumps(summary, indent=1) + "\n")
        if self.arguments.figure is not None and any(line["finished"] for line in lines):
            draw([line for line in lines if line["finished"]], self.arguments.figure, mean=MEAN)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=float, default=1e6, help="the most people; default 1e6")
    parser.add_argument("--from", type=float, default=1e4, dest="first", help="the fewest; default 1e4")
    parser.add_argument("--digest-users", type=float, default=20_000, help="0: no digests; else 5000 or more")
    parser.add_argument("--memory-users", type=float, default=1e5, help="the most people in memory")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--algorithm", default="residual")
    parser.add_argument("--rank", type=int, help="other than tuned")
    parser.add_argument("--rounds", type=int, help="other than tuned")
    parser.add_argument("--figure", type=Path, help="memory against data, as SVG")
    parser.add_argument("--json", type=Path, help="write results here")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and go on with those that are there")
    parser.add_argument("--minutes", type=float, help="stop after so many; the same command goes on")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Compare boards, then measure size after size until the time is over; fails where boards differ."""
    arguments = parsed()
    if arguments.child is not None:
        print(json.dumps(run_asked(json.loads(arguments.child))))
        return
    if 0 < arguments.digest_users < _FEWEST_DIGESTED:
        raise SystemExit(
            f"--digest-users below {_FEWEST_DIGESTED} are one span: nothing of a round can be kept"
        )
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept = Kept(folder)
        kept.begin({name: getattr(arguments, name) for name in ("algorithm", "rank", "rounds", "workers")})
        minutes = float("inf") if arguments.minutes is None else arguments.minutes
        benchmark = Benchmark(arguments, kept, time.monotonic() + 60 * minutes)
        parts: list[Callable[[], None]] = [benchmark.same_boards] if arguments.digest_users else []
        try:
            for part in (*parts, benchmark.sizes):
                part()
        except OutOfTimeError:
            print("time is over; the same command goes on", flush=True)
        finally:
            benchmark.write()
        for line in flatness(benchmark.lines()):
            print("  ".join(f"{key} {value}" for key, value in line.items()))
        if benchmark.equal() is False:
            raise SystemExit("the boards are not the same")


if __name__ == "__main__":
    main()
