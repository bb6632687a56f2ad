"""Other libraries on the same data and the same job, one process each: seconds, memory, and what they reached.

usage: python benchmarks/peers.py [--data SOURCE,...] [--kinds explicit,implicit,round] [--peers NAME,...]
                                  [--ranks 32,64] [--json FILE]

Each library comes from the package index into an environment of its own, which this script makes the first time and
keeps (--environments; LensKit's takes 6 GB). What does not install or run is skipped, and the file says why.

Jobs. ``explicit``: squared errors of ratings less their mean, plus ridge x (ratings of a row) x |vector|^2, no
biases. ``implicit``: what was rated above 3.5 with confidence c, all other pairs with 1, one ridge for all rows.
``round``: private rounds of item statistics (AdaDPALS) at rank 8: each user's part clipped, Gaussian noise of the
same multiplier onto the same sums for everybody, from the same public board. Everybody gets the same arrays,
sweeps, ridge and threads; a run over a few of the users comes before the clock, which thus counts no compilation.
One judge: RMSE or Recall@20 on ratings that nobody saw, and for the first two the value of the objective, which
shows that it was the same job.

Seconds are of training alone; FILE has those of importing and of converting the arrays, too. ``ratio`` of a row is
seconds of the peer over ours in the same job, ``cpu_ratio`` the same of processor seconds, which a busy machine
changes less; the least of a few runs counts.
"""

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from peers_parts.jobs import ROUNDS, JobFolder, load_data, make_job
from peers_parts.judge import NotFiniteError, judged
from peers_parts.rows import KINDS, OURS, PEERS, Peer, SkippedError, interpreter_of, run_row

REPEATED_BELOW = 60.0
ROUND_RANK = 8
QUALITY = {"explicit": "rmse", "implicit": "recall@20", "round": "rmse"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fedboard" / "peers"


def words(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def main() -> None:
    """Install who is missing, measure all on every job, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--data",
        type=words,
        default=("synthetic",),
        help="what fedboard reads; or synthetic, synthetic-small",
    )
    add("--kinds", type=words, default=KINDS, help=f"of jobs; default: {','.join(KINDS)}")
    add(
        "--peers",
        type=words,
        default=(),
        help=f"ours run beside them: {', '.join(peer.name for peer in PEERS)}",
    )
    add("--ranks", type=words, default=("32", "64"), help="of explicit and implicit jobs; default: 32,64")
    add("--epochs", type=int, default=10, help="sweeps; default: 10")
    add("--rounds", type=int, default=ROUNDS, help=f"private rounds; default: {ROUNDS}")
    add("--threads", type=int, default=1, help="for everybody; default: 1")
    add("--repeats", type=int, default=2, help="of rows under a minute; default: 2")
    add("--environments", type=Path, default=CACHE, metavar="DIR", help=f"default: {CACHE}")
    add("--json", type=Path, metavar="FILE", help="the numbers")
    given = parser.parse_args()
    if unknown := {*given.kinds} - {*KINDS} | {*given.peers} - {peer.name for peer in PEERS}:
        parser.error(f"no such kind or peer: {', '.join(sorted(unknown))}")
    measure(given)


def measure(given: argparse.Namespace) -> None:
    """All jobs; writes the file after each, so that a long run that is ended keeps what it has."""
    found: dict[str, Any] = {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": list(os.getloadavg()),
        },
        **{key: getattr(given, key) for key in ("threads", "repeats", "epochs", "rounds")},
        "jobs": {},
        "rows": [],
        "skipped": {},
    }
    with tempfile.TemporaryDirectory(prefix="peers-") as place:
        for job in jobs_of(given, Path(place)):
            shape = {"n_users": job.train.n_users, "n_items": job.train.n_items}
            found["jobs"][job.name] = job.spec | shape
            print(f"{job.name}: {job.train.n_ratings} entries of {shape}", flush=True)
            found["rows"] += run_job(job, found["skipped"], given)
            if given.json:
                given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def jobs_of(given: argparse.Namespace, place: Path) -> Iterator[JobFolder]:
    """By data set, then kind, then rank."""
    for source in given.data:
        data = load_data(source)
        for kind in given.kinds:
            epochs = given.rounds if kind == "round" else given.epochs
            for rank in (ROUND_RANK,) if kind == "round" else map(int, given.ranks):
                yield make_job(kind, data, rank=rank, epochs=epochs, place=place)


def run_job(job: JobFolder, skipped: dict[str, Any], given: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows of one job, in turn, as often as asked, those that took long once; ours first."""
    wanted = [peer for peer in PEERS if peer.kind == job.spec["kind"]]
    wanted = [
        one for one in wanted if not given.peers or one.name in given.peers or one.name.startswith(OURS)
    ]
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(given.repeats):
        for peer in wanted:
            long = peer.name in runs and runs[peer.name][0]["seconds"]["fit"] > REPEATED_BELOW
            if long or f"{job.name}/{peer.name}" in skipped:
                continue
            try:
                row = one_run(job, peer, given)
            except SkippedError as why:
                skipped[f"{job.name}/{peer.name}"] = {"step": why.step, "reason": why.reason}
                print(f"  {peer.name}: skipped: {why.step}: {why.reason}", flush=True)
                continue
            runs.setdefault(peer.name, []).append(row)
            print(f"  {peer.name:17} {row['seconds']['fit']:8.3f} s  {row['quality']}", flush=True)
    rows = []
    for name, done in runs.items():
        least = min(done, key=lambda run: float(run["seconds"]["fit"]))
        ours = rows[0] if rows else least
        ratios = {
            key: least[part]["fit"] / ours[part]["fit"] if ours[part]["fit"] else None
            for key, part in (("ratio", "seconds"), ("cpu_ratio", "cpu_seconds"))
        }
        rows.append({"job": job.name, "peer": name, "runs": len(done), **least, **ratios})
    return rows


def one_run(job: JobFolder, peer: Peer, given: argparse.Namespace) -> dict[str, Any]:
    """One process, and what the judge says of its result."""
    python = interpreter_of(peer.requirements, given.environments)
    with tempfile.TemporaryDirectory(prefix="row-") as out:
        row = run_row(peer, python, job=job.folder, out=Path(out), threads=given.threads)
        try:
            return row | {"quality": judged(job, Path(out) / "result.npz")}
        except (KeyError, NotFiniteError) as error:
            raise SkippedError("judge", str(error)) from error


def table(found: dict[str, Any]) -> str:
    """Markdown: a table for each job, ours first; what was skipped below."""
    told, lines = {peer.name: peer.told for peer in PEERS}, list[str]()
    for job, spec in found["jobs"].items():
        metric = QUALITY[spec["kind"]]
        lines += [
            "",
            job,
            "",
            f"| | training, s | over ours | processor s | over ours | peak MB | {metric} |",
        ]
        lines.append("|---|---|---|---|---|---|---|")
        for row in (row for row in found["rows"] if row["job"] == job):
            lines.append(
                f"| {row['peer']} {row['version']}: {told[row['peer']]} | {row['seconds']['fit']:.3g} | "
                f"{row['ratio'] or 0:.3g} | {row['cpu_seconds']['fit']:.3g} | {row['cpu_ratio'] or 0:.3g} | "
                f"{row['peak_memory_mb']:.0f} | {row['quality'][metric]:.4f} |"
            )
    lines += [f"- skipped: {name}: {why['step']}: {why['reason']}" for name, why in found["skipped"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
