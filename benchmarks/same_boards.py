"""Did a change of the code change a number? Digests of small seeded runs, against those in `same_boards.json`.

    python benchmarks/same_boards.py                  # rows of one process: under two minutes on two idle cores
    python benchmarks/same_boards.py --all            # and of several: workers, Ray, Flower's simulation, fleets
    python benchmarks/same_boards.py --only ray,topk  # all rows whose names hold these words
    python benchmarks/same_boards.py --all --write    # write the kept file anew, and say which rows changed

A row is an algorithm, a protocol and a runtime (``residual / trusted / ray``), a variant of a run, a query, noise
alone (counts of 3000 items, of which the people have 30), a reader, or a combination that fedboard refuses;
`same_boards_parts/table.toml` says which there are, and why others are not. Members of a row: ``arrays`` of all
boards, ``releases`` (how many are booked, and their numbers), ``claim`` (epsilon, delta, mu), ``order`` of users
and items, ``metrics`` or an answer; of compiled kernels, whose last bits depend on the processor, sums ``about``
arrays. A difference names row and member, and the exit code is 1. A commit that changes the kept file changes
nothing else, names each row and says why.

The fedboard of the interpreter that runs this is measured, so for another checkout take that of its environment.
Names of fedboard stand in the table and in `same_boards_parts/product.py`; none of arrays, releases or mechanisms
is in a digest. NumPy and OpenBLAS are told to compute as with AVX2, so that newer x86-64 processors give the same
digests. Numbers of ``metrics`` may differ by 1e-12, those of ``about`` by 1e-4.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
os.environ |= _ONE_THREAD | {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}

import numpy as np  # noqa: E402
from same_boards_parts.people import People  # noqa: E402
from same_boards_parts.processes import Cluster, trained_fleet  # noqa: E402
from same_boards_parts.product import TABLE, Fedboard  # noqa: E402

KEPT = Path(__file__).with_suffix(".json")
Found = dict[str, Any]
"""Member of a row to what is compared."""
_CLOSE = {"metrics": 1e-12, "about": 1e-4}
"""Members that are numbers, and the relative difference that is none."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing to run, in a folder of its own."""

    name: str
    job: Callable[[Path], Found]
    processes: bool = False
    """Whether it needs more than this one, or compiles."""
    refused: str = ""
    """Why fedboard refuses it, where it does."""


def rows(people: People, cluster: Cluster) -> Iterator[Row]:
    """All of them, quick ones first."""
    for runtime, options in TABLE["runtimes"].items():
        for protocol in TABLE["protocols"]:
            names = TABLE["sets"][options["trusted" if protocol == "trusted" else "others"]]
            for name in TABLE["algorithms"] if (runtime, protocol) == ("memory", "trusted") else names:
                yield _run_row(name, protocol, runtime, people, cluster)
    for name, more in TABLE["variants"].items():
        yield Row(name=f"variant / {name}", job=partial(learnt, Fedboard.run(people=people, **more)))
    for name, options in TABLE["queries"].items():
        yield Row(name=f"query / {name}", job=partial(asked, people, options))
    for protocol in TABLE["protocols"]:
        config = Fedboard.run("private popularity", people, protocol=protocol, data=people.many_items)
        yield Row(name=f"noise / {protocol}", job=partial(learnt, config))
    for name in TABLE["readers"]:
        yield Row(name=f"read / {name}", job=partial(read, people, name))
    for kernels, names in TABLE["kernels"].items():
        for name in TABLE["sets"][names]:
            config = Fedboard.run(name, people, run={"kernels": kernels})
            yield Row(name=f"{name} / kernels / {kernels}", job=partial(about, config), processes=True)
    for name, options in TABLE["fleets"].items():
        job = partial(fleet, people, name, options)
        yield Row(name=f"{name} / {options['protocol']} / fleet", job=job, processes=True)


def _run_row(name: str, protocol: str, runtime: str, people: People, cluster: Cluster) -> Row:
    options = TABLE["runtimes"][runtime]
    why = options.get("only_trusted", "") if protocol != "trusted" else ""
    why = why or (options.get("only_ratings", "") if name in TABLE["sets"]["examples"] else "")
    job = partial(learnt, Fedboard.run(name, people, protocol=protocol, runtime=runtime))
    if "ray" in options and not why:
        job = partial(cluster.beside, job)
    processes = "processes" in options and not why
    return Row(name=f"{name} / {protocol} / {runtime}", job=job, processes=processes, refused=why)


def learnt(config: dict[str, Any], place: Path) -> Found:
    """A run from ratings to board, judged on what was held out."""
    Fedboard.simulate(config, place)
    lines = Fedboard.metrics(place)
    return {
        **told(place),
        "metrics": sorted(_numbers(lines)) if config["run"]["baselines"] else lines[-1]["metrics"],
    }


def about(config: dict[str, Any], place: Path) -> Found:
    """A run by compiled kernels: of the last board the sum over each array."""
    Fedboard.simulate(config, place)
    arrays, _ = Fedboard.boards(place)[-1]
    sums = sorted(float(np.abs(values.astype(np.float64)).sum()) for values in arrays)
    return {"about": sums, **_promised(Fedboard.certificate(place))}


def fleet(people: People, name: str, options: dict[str, Any], place: Path) -> Found:
    """A server and its devices as processes, over TLS."""
    run, port, commands = Fedboard.fleet(name, options["protocol"], people, place)
    trained_fleet(place, port, commands)
    found = told(run)
    return {member: found[member] for member in options["compared"]}


def told(run: Path) -> Found:
    """What a run has published; arrays by their contents, since their names may change."""
    boards, certificate = Fedboard.boards(run), Fedboard.certificate(run)
    arrays, items = [sorted(map(digest, each)) for each, _ in boards], [items for _, items in boards]
    return {"arrays": digest(arrays), "order": digest(items), **_promised(certificate)}


def _promised(certificate: dict[str, Any]) -> Found:
    releases = [sorted(_numbers(release)) for release in Fedboard.releases(certificate)]
    return {"releases": f"{len(releases)} {digest(releases)}", "claim": Fedboard.claim(certificate)}


def asked(people: People, options: dict[str, Any], place: Path) -> Found:
    """A private query."""
    answer, certificate = Fedboard.ask(people.ratings, ledger=place / "ledger", **options)
    return {"metrics": _numbers(answer), **_promised(certificate)}


def read(people: People, name: str, place: Path) -> Found:
    """Ratings as they are numbered and sorted in memory, and as they lie in shards."""
    source = people.in_format(name, TABLE["readers"][name])
    ids, columns = Fedboard.read(source, name)
    Fedboard.shard(source, place / "shards", name)
    return {
        "order": digest(ids),
        "ratings": digest(columns),
        "shards": digest(Fedboard.columns(place / "shards")),
    }


def digest(value: Any) -> str:
    """Of anything made of numbers, texts, lists and arrays."""
    return hashlib.sha256(json.dumps(value, default=_of_array).encode()).hexdigest()[:16]


def _of_array(values: np.ndarray) -> list[Any]:
    return [str(values.dtype), values.shape, hashlib.sha256(values.tobytes()).hexdigest()]


def _numbers(value: Any) -> list[float]:
    """Each number in it, whatever its name."""
    if isinstance(value, dict | list | tuple):
        inner = value.values() if isinstance(value, dict) else value
        return [number for each in inner for number in _numbers(each)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def measured(row: Row, folder: Path) -> Found:
    """Run it; what goes wrong is an error, and one that fedboard refuses says so."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        try:
            return row.job(Path(place))
        except Fedboard.Refusal as refusal:
            return {"refused": True} if row.refused else {"error": f"refused: {refusal}"}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}


def difference(then: Found | None, now: Found) -> str:
    """What differs, in a line; empty where nothing does."""
    if then is None:
        return str(now.get("error", "not in the kept file"))
    unlike = [key for key in {**then, **now} if not _same(key, then.get(key), now.get(key))]
    return "; ".join(f"{key} {str(then.get(key))[:80]} -> {str(now.get(key))[:400]}" for key in unlike)


def _same(member: str, then: Any, now: Any) -> bool:
    if member not in _CLOSE or then is None or now is None:
        return bool(then == now)
    pairs = list(zip_longest(_numbers(then), _numbers(now), fillvalue=math.nan))
    return all(math.isclose(*pair, rel_tol=_CLOSE[member]) for pair in pairs)


def unknown() -> list[str]:
    """Names that the registry has and the table has not."""
    names = {options["algorithm"] for options in TABLE["algorithms"].values()} | {
        *TABLE["protocols"].values()
    }
    return [
        f"{name}: the table has no such algorithm or protocol"
        for name in Fedboard.names()
        if name not in names
    ]


def write(path: Path, found: dict[str, Found]) -> None:
    """What it was made on, and a row a line."""
    told = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next(
        (line.partition(": ")[2] for line in told if line.startswith("model name")), platform.machine()
    )
    made = {
        "processor": model,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
    }
    made["kernels"] = "numpy, as with AVX2; of compiled kernels only sums"
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    path.write_text(f'{{\n "written": {json.dumps(made)},\n "rows": {{\n{lines}\n }}\n}}\n', encoding="utf-8")


def main(words: Sequence[str] | None = None) -> None:
    """Compare with the kept file, or write it; exit code 1 where a row differs or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--all", action="store_true", help="rows of several processes, too")
    parser.add_argument("--only", default="", metavar="WORD,...", help="rows whose names hold all of these")
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FILE")
    parser.add_argument("--write", action="store_true", help="write the kept file anew")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(words)
    begun = time.monotonic()
    kept = json.loads(given.kept.read_text(encoding="utf-8"))["rows"] if given.kept.exists() else {}
    names, found = run(kept, given.only.split(","), everything=given.all or bool(given.only))
    unlike = {name: text for name, row in found.items() if (text := difference(kept.get(name), row))}
    gone = [f"{name}: in the kept file, and no row of the table" for name in kept if name not in names]
    lines = [*unknown(), *gone, *(f"{name}: {text}" for name, text in unlike.items())]
    told = {
        "rows": len(found),
        "equal": len(found) - len(unlike),
        "seconds": round(time.monotonic() - begun, 1),
    }
    print("\n".join([*lines, "{equal} of {rows} rows are the same, in {seconds} s".format(**told)]))
    if given.json:
        given.json.write_text(json.dumps({**told, "differences": lines}, indent=1) + "\n", encoding="utf-8")
    failed = any("error" in row for row in found.values())
    if given.write:
        kept |= {name: row for name, row in found.items() if "error" not in row}
        write(given.kept, {name: kept[name] for name in names if name in kept})
    raise SystemExit(failed or (bool(lines) and not given.write))


def run(kept: dict[str, Found], words: list[str], *, everything: bool) -> tuple[list[str], dict[str, Found]]:
    """Names of all rows there are, and what came of those whose names hold these words."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="same-") as place, Cluster(Path(place)) as cluster:
        every = list(rows(People(Path(place), Fedboard.shard), cluster))
        here = [row for row in every if everything or not row.processes]
        for row in (row for row in here if all(word in row.name for word in words)):
            begun = time.monotonic()
            now = found[row.name] = measured(row, Path(place))
            same = "differs" if difference(kept.get(row.name), now) else "same"
            print(f"{time.monotonic() - begun:6.1f} s  {row.name}: {same}", file=sys.stderr)
    return [row.name for row in every], found


if __name__ == "__main__":
    main()
