"""What a catalogue of a million items costs: bytes on the wire, a device's list, a private round's memory.

usage: python benchmarks/speed/large_catalogue.py [--json FILE] [--items M] [--rank D] [--users N]

Each part runs in a process of its own, so that its peak memory is its own:

- ``round``: a private run of one alternation (`residual`, made-up people) at this size;
- ``wire``: bytes of the board as a file and packed. Its factors are
  drawn, since those that little data have learnt are nearly all zero and weigh nothing: random ones compress least;
- ``device``: opening that board with every check, and the 20 best of all items for one person, first and again.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from process_tree import own_peak_mib

from fedboard.client.boards.open_board import open_board
from fedboard.client.recommending.recommend import recommend
from fedboard.common.board import Board
from fedboard.common.boards.packing import pack
from fedboard.common.cohort import Cohort

OWN_RATINGS, TIMES = 100, 7


def play_round(out: Path, items: int, rank: int, users: int) -> dict[str, Any]:
    """One private run; its last board stays."""
    from fedboard.simulations.config import parse_config
    from fedboard.simulations.simulate import simulate

    config = parse_config(
        {
            "algorithm": "residual",
            "data": {"source": f"synthetic:users={users},items={items},mean=30"},
            "settings": {"rank": rank, "rounds": 1},
            "run": {"baselines": False, "evaluate_rounds": False},
        }
    )
    before, cpu, wall = own_peak_mib(), time.process_time(), time.perf_counter()
    simulate(config, out / "run", report=False)
    return {
        "cpu_seconds": time.process_time() - cpu,
        "seconds": time.perf_counter() - wall,
        "peak_mib": own_peak_mib(),
        "before_mib": before,
    }


def weigh(out: Path, items: int, rank: int, users: int) -> dict[str, Any]:
    """The last board with drawn factors, in every form."""
    learnt = Board.load(sorted((out / "run" / "boards").glob("board-*.board"))[-1])
    factors = np.random.default_rng(0).normal(0.0, 0.2, (items, rank)).astype(np.float32)
    arrays = {**learnt.arrays, "item_factors": factors, "learnt": np.ones(items, dtype=np.uint8)}
    drawn = replace(learnt, arrays=arrays, certificate=None, _digest=[])
    drawn.save(out / "drawn.board")
    content = (out / "drawn.board").read_bytes()
    return {"file": len(content), "packed": len(pack(content))}


def person(n_items: int, seed: int) -> Cohort:
    """Somebody with ``OWN_RATINGS`` ratings."""
    rng = np.random.default_rng(seed)
    items = np.sort(rng.choice(n_items, OWN_RATINGS, replace=False)).astype(np.int32)
    ratings = rng.integers(1, 6, items.size).astype(np.float32)
    return Cohort(indptr=np.array([0, items.size]), items=items, ratings=ratings, n_items=n_items)


def list_on_device(out: Path, items: int, rank: int, users: int) -> dict[str, Any]:
    """Open the board, then the list."""
    before, begun = own_peak_mib(), time.perf_counter()
    board = open_board(out / "drawn.board")
    opened = time.perf_counter() - begun
    own, seconds, cpu = person(items, 0), [], []
    for _ in range(TIMES):
        begun, used = time.perf_counter(), time.process_time()
        recommend(own, board, k=20)
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    return {
        "open_seconds": opened,
        "first_list_seconds": seconds[0],
        "list_seconds": statistics.median(seconds[1:]),
        "list_cpu_seconds": statistics.median(cpu[1:]),
        "peak_mib": own_peak_mib(),
        "before_mib": before,
    }


PARTS = {"round": play_round, "wire": weigh, "device": list_on_device}


def main() -> None:
    """All parts, or one of them for the process that asks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = (options.items, options.rank, options.users)
    if options.part is not None:
        print(json.dumps(PARTS[options.part](options.out, *size)))
        return
    found: dict[str, Any] = {
        "items": size[0],
        "rank": size[1],
        "users": size[2],
        "machine": platform.processor(),
    }
    with tempfile.TemporaryDirectory(prefix="fedboard-large-") as folder:
        for part in PARTS:
            found[part] = _in_process(part, Path(folder), size)
            print(part, json.dumps(found[part], indent=1), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _in_process(part: str, folder: Path, size: tuple[int, int, int]) -> Mapping[str, Any]:
    numbers = [f"--{name}={value}" for name, value in zip(("items", "rank", "users"), size, strict=True)]
    command = [sys.executable, __file__, "--part", part, "--out", str(folder), *numbers]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: Mapping[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
