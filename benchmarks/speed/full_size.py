"""Files of the size at which the field's large sets are published: made, read, and an experiment run on each.

usage: python benchmarks/speed/full_size.py SET [--share 1.0] [--only load|reproduce] [--folder DIR] [--json FILE]

netflix  100 480 507 ratings of 480 189 users and 17 770 films, four combined_data_*.txt, film by film, with dates.
msd       48 373 586 plays of 1 019 318 users and 384 546 songs, train_triplets.txt, user by user.
amazon    82 677 131 ratings of 21 million users and 9.9 million items, 2014's layout, in any order, pairs repeat.

The numbers are those of the published sets; who rated what is made up from a seed, with a popular head. Each step
runs in a process of its own, whose seconds, processor seconds and peak memory are told: writing, ``load_ratings``,
and ``python research/run.py krichene 7`` (how unevenly the items are rated; it reads, splits and counts). The
file is deleted afterwards.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

RUN = Path(__file__).resolve().parents[2] / "research" / "run.py"
STEP = 1 << 20
DAYS = (np.datetime64("1999-11-11"), 2243)
LETTERS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", dtype=np.uint8)
Array = NDArray[Any]


def netflix(folder: Path, share: float) -> int:
    """Film by film; a user is at most once in each, by a walk through all users in steps of her own."""
    rows, users, items = int(100_480_507 * share), int(480_189 * share), 17_770
    rng = np.random.default_rng(0)
    counts = shared_out(rows, items, most=users // 2)
    first, days = DAYS
    dates = pa.array([str(first + day) for day in range(days)])
    written = 0
    for part in range(4):
        with (folder / f"combined_data_{part + 1}.txt").open("wb") as stream:
            for item in range(part * items // 4, (part + 1) * items // 4):
                count = int(counts[item])
                step = coprime(int(rng.integers(users // 3, users)), users)
                whose = (int(rng.integers(users)) + step * np.arange(count, dtype=np.int64)) % users
                stars = pa.array(
                    rng.choice(np.arange(1, 6, dtype=np.int8), count, p=(0.05, 0.1, 0.29, 0.34, 0.22))
                )
                table = pa.table(
                    {"u": 5 * whose + 7, "r": stars, "d": dates.take(pa.array(rng.integers(0, days, count)))}
                )
                stream.write(b"%d:\n" % (item + 1))
                csv.write_csv(table, stream, PLAIN)
                written += count
    return written


def msd(folder: Path, share: float) -> int:
    """User by user, each with her songs in any order."""
    users, items = int(1_019_318 * share), 384_546
    rng, written = np.random.default_rng(1), 0
    songs = pa.array([f"SO{text}" for text in codes(np.arange(items), 16)])
    with csv.CSVWriter(folder / "train_triplets.txt", MSD_SCHEMA, write_options=TABS) as writer:
        for start in range(0, users, STEP // 64):
            own = np.arange(start, min(start + STEP // 64, users))
            each = np.minimum(10 + rng.exponential(38.6, own.size), 4000).astype(np.int64)
            whose, what = np.repeat(own, each), head_heavy(rng, int(each.sum()), items)
            chosen = rng.permutation(np.unique(whose * items + what))
            chosen = chosen[np.argsort(chosen // items, kind="stable")]
            names = pa.array([sha1(b"%d" % user).hexdigest() for user in own.tolist()])
            plays = rng.geometric(0.35, chosen.size)
            columns = [
                names.take(pa.array(chosen // items - start)),
                songs.take(pa.array(chosen % items)),
                pa.array(plays),
            ]
            writer.write_table(pa.table(columns, schema=MSD_SCHEMA))
            written += chosen.size
    return written


def amazon(folder: Path, share: float) -> int:
    """In any order; a pair may come again."""
    rows, users, items = (int(number * share) for number in (82_677_131, 21_176_522, 9_874_211))
    rng = np.random.default_rng(2)
    with csv.CSVWriter(folder / "ratings.csv", AMAZON_SCHEMA, write_options=PLAIN) as writer:
        for start in range(0, rows, STEP):
            count = min(STEP, rows - start)
            who = (users * rng.random(count) ** 2).astype(np.int64)
            what = head_heavy(rng, count, items)
            columns = [
                pa.array([f"A{text}" for text in codes(who, 13)]),
                pa.array([f"B{text}" for text in codes(what, 9)]),
                pa.array(
                    rng.choice(["1.0", "2.0", "3.0", "4.0", "5.0"], count, p=(0.08, 0.05, 0.09, 0.19, 0.59))
                ),
                pa.array(rng.integers(900_000_000, 1_406_000_000, count)),
            ]
            writer.write_table(pa.table(columns, schema=AMAZON_SCHEMA))
    return rows


PLAIN = csv.WriteOptions(include_header=False, quoting_style="none")
TABS = csv.WriteOptions(include_header=False, quoting_style="none", delimiter="\t")
MSD_SCHEMA = pa.schema([("user", pa.string()), ("song", pa.string()), ("plays", pa.int64())])
AMAZON_SCHEMA = pa.schema([("u", pa.string()), ("i", pa.string()), ("r", pa.string()), ("t", pa.int64())])
SETS: dict[str, Callable[[Path, float], int]] = {"netflix": netflix, "msd": msd, "amazon": amazon}


def shared_out(rows: int, items: int, *, most: int) -> Array:
    """Ratings of each item, at least 3, by a power law, in random order."""
    weights = (np.arange(items) + 20.0) ** -1.05
    for _ in range(30):
        counts = np.clip(rows * weights / weights.sum(), 3, most)
        weights *= np.where(counts < most, rows / counts.sum(), 1.0)
    whole = np.floor(np.clip(counts, 3, most)).astype(np.int64)
    short = rows - int(whole.sum())
    whole[np.argsort(whole)[items // 2 : items // 2 + abs(short) % (items // 2)]] += np.sign(short)
    return np.random.default_rng(3).permutation(whole)


def head_heavy(rng: np.random.Generator, count: int, items: int) -> Array:
    """Items drawn so that a few are had by many."""
    return (items * rng.random(count) ** 3).astype(np.int64)


def coprime(step: int, of: int) -> int:
    """The next number without a common factor."""
    while np.gcd(step, of) != 1:
        step += 1
    return step


def codes(numbers: Array, length: int) -> list[str]:
    """A code of letters and digits for each number, none twice up to 10 of them a letter: as if drawn."""
    spread = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    if length < 13:
        spread = (numbers.astype(np.uint64) * np.uint64(2_654_435_761)) % np.uint64(36**length)
    digits = np.zeros((numbers.size, length), dtype=np.uint8)
    for place in range(length - 1, -1, -1):
        digits[:, place] = LETTERS[(spread % np.uint64(36)).astype(np.int64)]
        spread //= np.uint64(36)
    return [text.decode() for text in digits.view(f"S{length}").ravel().tolist()]


def measured(command: list[str]) -> dict[str, Any]:
    """Run a command; what it took. Its peak is never less than what this process holds, about 0.1 GiB."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    peak = used.ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_gib": round(peak, 2),
        "told": told,
    }


def commands(place: Path, results: Path) -> dict[str, list[str]]:
    """What is measured on the file, by name."""
    return {
        "load": [sys.executable, __file__, "--load", str(place)],
        "reproduce": [sys.executable, str(RUN), "krichene", "7", "--data", str(place), "--out", str(results)],
    }


def load(place: Path) -> None:
    """In this process, and say what came."""
    from fedboard.simulations.datasets import load_ratings

    ratings = load_ratings(place)
    print(json.dumps({"users": ratings.n_users, "items": ratings.n_items, "ratings": ratings.n_ratings}))


def measure_all(place: Path, name: str, share: float, *, only: str | None) -> dict[str, Any]:
    """Write a set and measure each step on it, printing as it goes."""
    found: dict[str, Any] = {"set": name}

    def note(step: str, command: list[str]) -> str:
        taken = measured(command)
        told = str(taken.pop("told"))
        found[step] = taken
        print(json.dumps({step: taken}), told.strip()[-400:], flush=True)
        return told

    lines = int(note("write", [sys.executable, __file__, name, "--share", str(share), "--write", str(place)]))
    files = list(place.iterdir())
    found |= {"lines": lines, "file_gb": round(sum(file.stat().st_size for file in files) / 1e9, 2)}
    print(json.dumps({"lines": lines, "file_gb": found["file_gb"]}), flush=True)
    for step, command in commands(place if len(files) > 1 else files[0], place / "results").items():
        if only in (None, step):
            note(step, command)
            found[step]["peak_bytes_per_line"] = round(found[step]["peak_gib"] * 2**30 / lines)
    return found


def main() -> None:
    """Measure every step on one set; with ``--write`` or ``--load`` this is such a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="?", choices=sorted(SETS))
    parser.add_argument(
        "--share", type=float, default=1.0, help="of users and ratings; 1 is the published size"
    )
    parser.add_argument("--folder", type=Path, help="where the file goes for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the result here as well")
    parser.add_argument("--only", choices=["load", "reproduce"], help="measure this step alone")
    parser.add_argument("--write", type=Path, metavar="DIR", help="only write the file there, and report")
    parser.add_argument("--load", type=Path, metavar="PATH", help="only load this, and report")
    options = parser.parse_args()
    if options.load is not None:
        load(options.load)
        return
    if options.name is None:
        parser.error("name one of netflix, msd, amazon")
    if options.write is not None:
        print(SETS[options.name](options.write, options.share))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = measure_all(Path(folder), options.name, options.share, only=options.only)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
