"""What the live page costs the run that serves it, and how soon news reach a browser.

usage: python benchmarks/speed/live.py [--json FILE] [--repeats 3] [--rounds 9] [--users 20000]

Needs chromium, chromium-driver and the extras ``sim`` and ``dev``. A simulation of made-up users runs in a
process of its own, in turn without ``--live`` and with it while a real browser has the page open. Whole processes
differ by more than one percent from run to run on any machine, so the threads of the page, and what it takes to
begin, are also measured by themselves (the kernel's own clock of each, Linux): ``live_share`` is their CPU over
that of the whole run.
``news_seconds`` is from the moment in which the run has written a round to the one in which a reader holds it.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

_TICK = 0.02
_LIVE = ("live-http",)
_HANDLER = "process_request_thread"


class Clock:
    """CPU of the page's threads, read from the kernel for as long as they live."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._seconds: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Clock":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        return sum(self._seconds.values())

    def _run(self) -> None:
        while not self._stop.wait(_TICK):
            for thread in threading.enumerate():
                if thread.name in _LIVE or _HANDLER in thread.name:
                    self._read(thread.native_id)

    def _read(self, number: int | None) -> None:
        try:
            spent = Path(f"/proc/self/task/{number}/schedstat").read_text(encoding="ascii").split()[0]
        except OSError:
            return
        if number is not None:
            self._seconds[number] = int(spent) / 1e9


class Rounds:
    """When each round was written, by the clock of all processes."""

    def __init__(self) -> None:
        self.written: dict[int, float] = {}

    def planned(self, problem: object, rounds: Sequence[str]) -> None:
        pass

    def progress(self, phase: str, done: int, total: int) -> None:
        pass

    def round_finished(self, line: Mapping[str, Any]) -> None:
        self.written[line["round"]] = time.time()


def one(place: Path, *, live: bool, rounds: int, users: int) -> dict[str, Any]:
    """A run in this process: CPU of it and what it started, of the page, and when rounds were written."""
    from fedboard.cli.research.live import watched
    from fedboard.simulations.config import parse_config
    from fedboard.simulations.simulate import simulate

    made_up = {"synthetic": {"n_users": users}}
    config = parse_config({"data": made_up, "settings": {"rounds": rounds}, "run": {"baselines": False}})
    heard = Rounds()
    began = time.monotonic()
    with Clock() as clock, ExitStack() as stack:
        before = time.thread_time()
        stack.enter_context(watched(config, place, "127.0.0.1:0" if live else None))
        start = time.thread_time() - before
        simulate(config, place, listener=heard, report=False)
        time.sleep(0.3)  # the last news are told before the page ends
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_seconds": time.process_time() + children.ru_utime + children.ru_stime,
        "live_seconds": clock.seconds + (start if live else 0.0),
        "wall_seconds": time.monotonic() - began,
        "start_seconds": start if live else 0.0,
        "written": heard.written,
    }


READ = """
window.heard = {};
new MutationObserver(() => {
  document.querySelectorAll('#rounds-table tbody tr').forEach((row, number) => {
    if (row.dataset.state === "made") window.heard[number] ??= Date.now() / 1000;
  });
}).observe(document.querySelector('main'), { childList: true, subtree: true, attributes: true });
"""


def measured(page: Any, place: Path, *, live: bool, rounds: int, users: int, nobody: bool) -> dict[str, Any]:
    """The same in a process of its own; with a browser at its page where it has one."""
    words = [
        sys.executable,
        __file__,
        "--one",
        str(place),
        "--rounds",
        str(rounds),
        "--users",
        str(users),
        *(["--live"] if live else []),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        if live and not nobody:
            page.driver.get(process.stderr.readline().removeprefix("live page: ").strip())
            page.js(READ)
        told = process.stdout.readline()
        heard = page.js("return window.heard") if live and not nobody else {}
        rest = process.stderr.read()
    if not told:
        raise SystemExit(f"the run failed: {rest}")
    found: dict[str, Any] = json.loads(told)
    written = found.pop("written")
    found["news_seconds"] = [
        max(heard[number] - at, 0.0) for number, at in written.items() if number in heard
    ]
    if live and not nobody and len(found["news_seconds"]) < len(written):
        raise SystemExit(f"the page showed {len(found['news_seconds'])} of {len(written)} rounds")
    return found


def main() -> None:
    """Measure, in turn without and with the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the numbers there")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind")
    parser.add_argument("--rounds", type=int, default=9, help="of each run, not counting what prepares them")
    parser.add_argument("--users", type=int, default=20_000, help="of each run")
    parser.add_argument("--nobody", action="store_true", help="serve the page, and open it nowhere")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(one(given.one, live=given.live, rounds=given.rounds, users=given.users)))
        return
    from tests.client.page.browser import opened

    found: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "profile") as page:
        for number in range(given.repeats):
            for live in (False, True):
                place = Path(folder) / f"run-{number}-{live}"
                found[live].append(
                    measured(
                        page, place, live=live, rounds=given.rounds, users=given.users, nobody=given.nobody
                    )
                )
        browser = page.driver.capabilities["browserVersion"]
    news = [seconds for run in found[True] for seconds in run["news_seconds"]]
    told = {
        "cpu_seconds_without": [round(run["cpu_seconds"], 2) for run in found[False]],
        "cpu_seconds_with": [round(run["cpu_seconds"], 2) for run in found[True]],
        "cpu_ratio_of_medians": round(_median(found[True]) / _median(found[False]), 4),
        "live_cpu_seconds": [round(run["live_seconds"], 3) for run in found[True]],
        "of_it_to_begin": [round(run["start_seconds"], 3) for run in found[True]],
        "live_share": round(max(run["live_seconds"] / run["cpu_seconds"] for run in found[True]), 5),
        "news_seconds": {"median": round(statistics.median(news), 3), "most": round(max(news), 3)}
        if news
        else None,
        "browser": f"Chromium {browser}",
        "machine": platform.platform(),
    }
    print(json.dumps(told, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _median(runs: Sequence[Mapping[str, Any]]) -> float:
    return statistics.median(run["cpu_seconds"] for run in runs)


if __name__ == "__main__":
    main()
