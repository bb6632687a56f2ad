"""Would a test notice? Plants mistakes in a copy of the tree, one after the other, and says what caught each.

usage: python benchmarks/planted.py [--only ID,...] [--part PART,...] [--workers N] [--json FILE] [--limit SECONDS]
       python benchmarks/planted.py --check   # seconds: can each of them still be planted?

``planted.toml`` holds the list, which is frozen. First the tests that it names run without any mistake: where one
fails, no mistake counts as caught. Then each mistake is planted and its tests run until the first that fails.

Exit code 0: all were caught. 1: some were not. 2: one cannot be planted, or a test fails without a mistake.
Where the tests of a mistake reach the time limit it is not caught: on a busy machine that looks the same.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("planted.toml")
FIELDS = {"id", "part", "what", "file", "old", "new", "tests"}
LIMIT_SECONDS = 600.0
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PASSED = re.compile(r"\b\d+ passed")

Mistake = dict[str, Any]


def mistakes(path: Path = LIST) -> list[Mistake]:
    return list(tomllib.loads(path.read_text(encoding="utf-8"))["mistake"])


def problems(listed: Sequence[Mistake], root: Path = ROOT) -> list[str]:
    """Why some cannot be planted; empty where all can."""
    found = []
    for number, mistake in enumerate(listed):
        named = mistake.get("id", f"mistake {number}")
        if set(mistake) != FIELDS:
            found.append(f"{named}: has the members {', '.join(sorted(mistake))}")
            continue
        if [other["id"] for other in listed if other.get("id") == named] != [named]:
            found.append(f"{named}: two mistakes have this id")
        place = root / mistake["file"]
        times = place.read_text(encoding="utf-8").count(mistake["old"]) if place.is_file() else 0
        if times != 1 or mistake["old"] == mistake["new"]:
            found.append(
                f"{named}: the old text stands {times} times in {mistake['file']}, and must stand once"
            )
        missing = [test for test in mistake["tests"] if not (root / test.partition("::")[0]).exists()]
        if missing or not mistake["tests"]:
            found.append(f"{named}: no such test: {', '.join(missing) or 'none is named'}")
    return found


class Tree:
    """A copy of the tracked files, which tests import in place of what is installed."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._tree, self._packages, self._stamp = folder / "tree", folder / "packages", int(time.time())
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self._tree / name)
        places = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        for package, place in places["tool"]["setuptools"]["package-dir"].items():
            target = self._packages.joinpath(*package.split("."))
            target.mkdir(parents=True, exist_ok=True)
            for inside in (self._tree / place).iterdir():
                (target / inside.name).symlink_to(inside)

    def write(self, name: str, text: str) -> None:
        """Change a file; each time it gets another time, since compiled modules are held against that."""
        self._stamp += 2
        (self._tree / name).write_text(text, encoding="utf-8")
        os.utime(self._tree / name, (self._stamp, self._stamp))

    def run(self, tests: Sequence[str], *options: str, limit: float) -> tuple[str, str]:
        """How they end (``passed``, ``failed``, ``time limit``, ``no test ran``), and what failed."""
        paths = {
            "PYTHONPATH": str(self._packages),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            *options,
            *tests,
        ]
        with tempfile.TemporaryFile("w+") as told:
            began = subprocess.Popen(
                command,
                cwd=self._tree,
                env={**os.environ, **paths},
                stdout=told,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = began.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                return "time limit", ""
            finally:
                if began.poll() is None:
                    os.killpg(began.pid, signal.SIGKILL)
                    began.wait()
            told.seek(0)
            said = told.read()
        if code:
            return "failed", "; ".join(_FAILED.findall(said)) or said[-400:]
        return ("passed" if _PASSED.search(said) else "no test ran"), ""

    def plant(self, mistake: Mistake, *, limit: float) -> dict[str, Any]:
        sound, began = (self._tree / mistake["file"]).read_text(encoding="utf-8"), time.monotonic()
        self.write(mistake["file"], sound.replace(mistake["old"], mistake["new"]))
        try:
            outcome, by = self.run(mistake["tests"], "-x", limit=limit)
        finally:
            self.write(mistake["file"], sound)
        verdict = {"failed": "caught", "time limit": "not caught (time limit)"}.get(outcome, "not caught")
        seconds = round(time.monotonic() - began, 1)
        return {
            "id": mistake["id"],
            "part": mistake["part"],
            "verdict": verdict,
            "by": by,
            "seconds": seconds,
        }


def plant_all(chosen: Sequence[Mistake], *, workers: int, limit: float) -> list[dict[str, Any]]:
    """A row for each; every worker has a tree of its own."""
    left, rows = deque(chosen), list[dict[str, Any]]()

    def work(folder: str) -> None:
        tree = Tree(Path(folder))
        while left:
            try:
                row = tree.plant(left.popleft(), limit=limit)
            except IndexError:
                return
            rows.append(row)
            print(f"{row['id']}: {row['verdict']} {row['by']} ({row['seconds']:.0f} s)", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=work, args=(f"{folder}/{number}",)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="ID,...")
    parser.add_argument("--part", metavar="PART,...")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args(arguments)
    listed = mistakes()
    if found := problems(listed):
        print("\n".join(found))
        return 2
    ids, parts = ((given or "").split(",") for given in (asked.only, asked.part))
    chosen = [
        one
        for one in listed
        if (not asked.only or one["id"] in ids) and (not asked.part or one["part"] in parts)
    ]
    if asked.check or not chosen:
        print(f"{len(chosen)} mistakes can be planted")
        return 0 if chosen else 2
    tests = sorted({test for mistake in chosen for test in mistake["tests"]})
    with tempfile.TemporaryDirectory() as folder:
        whole = asked.limit * len(tests)
        outcome, failed = Tree(Path(folder)).run(tests, f"-n{asked.workers}", limit=whole)
    if outcome != "passed":
        print(f"without any mistake: {outcome} {failed}")
        return 2
    rows = plant_all(chosen, workers=asked.workers, limit=asked.limit)
    caught = sum(row["verdict"] == "caught" for row in rows)
    if asked.json:
        asked.json.write_text(
            json.dumps({"planted": len(chosen), "caught": caught, "rows": rows}, indent=1) + "\n"
        )
    print(f"{caught} of {len(chosen)} caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
