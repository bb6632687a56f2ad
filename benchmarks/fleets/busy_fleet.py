"""The quickstart's fleet on a machine that is busy with something else: rounds made, rounds lost, budget left.

usage: python benchmarks/fleets/busy_fleet.py [--hogs 16] [--times 1] [--checkout FOLDER] [--json FILE]

``examples/fleet/quickstart.sh`` runs as it is (a server, two gateways of 1 500 made-up people, one person), while
``--hogs`` processes that only compute keep every core busy. What came of it is read off the files that are left
and the exit code. A run that takes longer than ``--most-seconds`` is ended. ``--checkout`` runs the script of
another checkout, whose ``fedboard`` must be the one on the PATH (for a comparison with an earlier version).
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EPSILON = 5.0
"""Of the quickstart's fleet.toml."""
PLANNED = 7
"""The preparation round, five of the task's own and the last."""
_HOG = """
import os, time
end = time.monotonic() + {seconds}
while time.monotonic() < end and os.getppid() == {parent}:
    sum(range(100_000))
"""


@contextmanager
def hogs(number: int, seconds: float) -> Iterator[None]:
    """Processes that compute; they end with this one, and by themselves after so many seconds."""
    code = _HOG.format(seconds=seconds, parent=os.getpid())
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(number)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def quickstart(folder: Path, checkout: Path, *, most_seconds: float) -> dict[str, Any]:
    """Run the script; what came of it."""
    script = checkout / "examples" / "fleet" / "quickstart.sh"
    began = time.monotonic()
    with (folder.parent / f"{folder.name}.log").open("w+") as log:
        process = subprocess.Popen(
            ["bash", str(script), str(folder), str(_free_ports())],
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # not a session: a scheduler that shares cores among sessions would spare it
        )
        try:
            code: int | None = process.wait(most_seconds)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        log.seek(0)
        said = log.read()
    return {"exit_code": code, "seconds": time.monotonic() - began, **_made(folder), "said": _of_server(said)}


def _made(folder: Path) -> dict[str, Any]:
    path = folder / "state" / "runs" / "films" / "rounds.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    refused: Counter[str] = Counter()
    for line in lines:
        refused.update(line["refused"])
    spent = lines[-1]["epsilon_spent"] if lines else 0.0
    made = sum(bool(line["releases"]) for line in lines)
    return {
        "rounds_planned": PLANNED,
        "rounds_made": made,
        "rounds_lost": len(lines) - made,
        "epsilon_left": max(EPSILON - spent, 0.0),
        "answers": [line["answers"] for line in lines],
        "refused": dict(refused),
        "seconds_each": [round(line["seconds"], 1) for line in lines],
    }


def _of_server(said: str) -> list[str]:
    """The server's own sentences, without the times."""
    return [match[1] for match in re.finditer(r"^\d\d:\d\d:\d\d (.*)$", said, re.MULTILINE)]


def _free_ports() -> int:
    """The first of two ports beside each other that nobody listens on."""
    while True:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            with socket.socket() as other:
                try:
                    other.bind(("127.0.0.1", port + 1))
                except OSError:
                    continue
                return port


def main() -> int:
    """Run the quickstart among the hogs as often as asked; each run is written when it is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--hogs", type=int, default=8 * (os.cpu_count() or 1), help="processes that only compute"
    )
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--most-seconds", type=float, default=560.0, help="of one quickstart")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="busy-") as place:
        for number in range(options.times):
            with hogs(options.hogs, options.most_seconds + 60):
                one = quickstart(
                    Path(place) / f"fleet-{number}", options.checkout, most_seconds=options.most_seconds
                )
            found.append({**one, "hogs": options.hogs, "load": os.getloadavg()})
            print(json.dumps(found[-1], indent=1), flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
