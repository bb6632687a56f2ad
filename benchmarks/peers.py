"""Other libraries on the same data and the same job, one process each: seconds, memory, and what they reached.

usage: python benchmarks/peers.py [--data SOURCE,...] [--kinds explicit,implicit,round] [--json FILE]
       python benchmarks/peers.py --list

Each library comes from the package index into an environment of its own, which this script makes the first time and
keeps (--environments; LensKit's takes 6 GB). What does not install or run is skipped, and the file says why.

Jobs. ``explicit``: squared errors of ratings less their mean, plus ridge x (ratings of a row) x |vector|^2, no
biases. ``implicit``: what was rated above 3.5 with confidence c, all other pairs with 1, one ridge for all rows.
``round``: private rounds of item statistics (AdaDPALS): each user's part clipped, Gaussian noise of the same
multiplier onto the same sums for everybody, from the same public board. Everybody gets the same arrays, sweeps,
ridge and threads; a run over a few of the users comes before the clock, so that no compilation is in the seconds.
One judge: RMSE or Recall@20 on ratings that nobody saw, and for the first two the value of the objective, which
shows that it was the same job.

Seconds are of training alone; FILE has those of importing and of converting the arrays, too. ``seconds.<peer>``,
``cpu_seconds.<peer>``, ``peak_memory_mb.<peer>``, ``quality.<peer>`` are of each peer's last job (``headline``),
the largest if data and ranks are named in that order; ``ratio.<peer>`` is seconds of the peer over ours,
``cpu_ratio.<peer>`` the same of processor seconds, which a busy machine changes less. ``rows``: all.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from peers_parts.environments import SkippedError, default_folder, interpreter_of
from peers_parts.jobs import ROUNDS, Data, JobFolder, load_data, make_job
from peers_parts.judge import NotFiniteError, judged
from peers_parts.registry import KINDS, PEERS, Peer, chosen
from peers_parts.report import assembled, least, machine, table
from peers_parts.running import run_row

from fedboard.common.errors import InputError

INSTALL_SECONDS = 1800.0
REPEATED_BELOW = 60.0


def names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = found.add_argument
    add("--list", action="store_true", help="say who is measured, with versions, and end")
    add(
        "--data",
        default="synthetic",
        metavar="SOURCE,...",
        help="what fedboard reads; or synthetic, synthetic-small",
    )
    add("--kinds", default=",".join(KINDS), metavar="KIND,...", help=f"of jobs; default: {','.join(KINDS)}")
    add("--peers", default="", metavar="NAME,...", help="rows of --list; ours run beside them; default: all")
    add("--ranks", default="32,64", metavar="D,...", help="of explicit and implicit jobs; default: 32,64")
    add("--round-ranks", default="8", metavar="D,...", help="of private rounds; default: 8")
    add("--epochs", type=int, default=10, metavar="N", help="sweeps; default: 10")
    add("--rounds", type=int, default=ROUNDS, metavar="N", help=f"private rounds; default: {ROUNDS}")
    add("--threads", type=int, default=1, metavar="N", help="for everybody; default: 1")
    add(
        "--repeats",
        type=int,
        default=2,
        metavar="N",
        help="of rows under a minute, the least counts; default: 2",
    )
    add("--most-seconds", type=float, default=1800.0, metavar="S", help="for one row; default: 1800")
    add(
        "--environments",
        type=Path,
        default=default_folder(),
        metavar="DIR",
        help=f"default: {default_folder()}",
    )
    add("--installed-only", action="store_true", help="download nothing: skip what has no environment yet")
    add("--json", type=Path, metavar="FILE", help="the numbers")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Install who is missing, measure all on every job, and print the table."""
    given = parser().parse_args(arguments)
    try:
        peers = chosen(names(given.peers))
        if wrong := set(names(given.kinds)) - set(KINDS):
            raise ValueError(f"no such kind of job: {', '.join(sorted(wrong))}; there are {', '.join(KINDS)}")
        for name in ("epochs", "rounds", "threads", "repeats", "most_seconds"):
            if getattr(given, name) <= 0:
                raise ValueError(f"--{name.replace('_', '-')} must be > 0, got {getattr(given, name)}")
    except ValueError as error:
        parser().error(str(error))
    if given.list:
        for peer in PEERS:
            print(f"{peer.name:17} {', '.join(peer.library.requirements) or 'here'}: {peer.told}")
        return 0
    kinds = tuple(kind for kind in KINDS if kind in names(given.kinds))
    wanted = tuple(peer for peer in peers if peer.kind in kinds)
    pythons, skipped = installed(wanted, given)
    settings = {key: getattr(given, key) for key in ("threads", "repeats", "epochs", "rounds")}
    settings["load_before"] = machine()["load"]
    try:
        measure(kinds, wanted, pythons, skipped, settings, given)
    except InputError as error:
        parser().error(str(error))
    return 0


def measure(
    kinds: tuple[str, ...],
    wanted: tuple[Peer, ...],
    pythons: dict[str, Path],
    skipped: dict[str, SkippedError],
    settings: dict[str, Any],
    given: argparse.Namespace,
) -> None:
    """All jobs; writes the file after each, so that a long run that is ended keeps what it has.

    Raises:
        InputError: ratings cannot be read.
    """
    jobs: list[tuple[str, dict[str, Any]]] = []
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="peers-") as place:
        for job in jobs_of(kinds, given, Path(place)):
            jobs.append((job.name, job.spec | {"n_users": job.train.n_users, "n_items": job.train.n_items}))
            able = [peer for peer in wanted if job.spec["kind"] == peer.kind and peer.name in pythons]
            rows += run_job(job, able, pythons, skipped, given)
            if given.json:
                found = assembled(jobs, rows, skipped, settings=settings)
                given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(table(assembled(jobs, rows, skipped, settings=settings)))


def installed(
    peers: tuple[Peer, ...], given: argparse.Namespace
) -> tuple[dict[str, Path], dict[str, SkippedError]]:
    """Interpreters by row; and why some have none."""
    pythons: dict[str, Path] = {}
    skipped: dict[str, SkippedError] = {}
    for peer in peers:
        known = [skipped[one.name] for one in peers if one.library == peer.library and one.name in skipped]
        try:
            if known:
                raise known[0]
            pythons[peer.name] = interpreter_of(
                peer.library,
                given.environments,
                installed_only=given.installed_only,
                most_seconds=INSTALL_SECONDS,
            )
        except SkippedError as why:
            skipped[peer.name] = why
            print(f"{peer.name}: skipped: {why.step}: {why.reason}", flush=True)
    return pythons, skipped


def jobs_of(kinds: tuple[str, ...], given: argparse.Namespace, place: Path) -> Iterator[JobFolder]:
    """By data set, then kind, then rank: the last of a kind is the largest."""
    for source in names(given.data):
        data: Data = load_data(source)
        for kind in kinds:
            private = kind == "round"
            for rank in map(int, names(given.round_ranks if private else given.ranks)):
                yield make_job(
                    kind, data, rank=rank, epochs=given.rounds if private else given.epochs, place=place
                )


def run_job(
    job: JobFolder,
    peers: list[Peer],
    pythons: dict[str, Path],
    skipped: dict[str, SkippedError],
    given: argparse.Namespace,
) -> list[dict[str, Any]]:
    """All rows of one job, in turn, as often as asked; those that took long once."""
    print(
        f"{job.name}: {job.train.n_users} users, {job.train.n_items} items, {job.train.n_ratings} entries",
        flush=True,
    )
    runs: dict[str, list[dict[str, Any]]] = {}
    for repeat in range(given.repeats):
        for peer in peers:
            long = peer.name in runs and runs[peer.name][0]["seconds"]["fit"] > REPEATED_BELOW
            if long or f"{job.name}/{peer.name}" in skipped:
                continue
            try:
                runs.setdefault(peer.name, []).append(one_run(job, peer, pythons[peer.name], given))
            except SkippedError as why:
                skipped[f"{job.name}/{peer.name}"] = why
                print(f"  {peer.name}: skipped: {why.step}: {why.reason}", flush=True)
                continue
            row = runs[peer.name][-1]
            told = ", ".join(f"{name} {value:.5g}" for name, value in row["quality"].items())
            print(f"  {peer.name:17} run {repeat + 1}: {row['seconds']['fit']:8.3f} s  {told}", flush=True)
    return [{"job": job.name, "peer": name} | least(found) for name, found in runs.items() if found]


def one_run(job: JobFolder, peer: Peer, python: Path, given: argparse.Namespace) -> dict[str, Any]:
    """One process, and what the judge says of its result."""
    with tempfile.TemporaryDirectory(prefix="row-") as out:
        limits = {"threads": given.threads, "most_seconds": given.most_seconds}
        row = run_row(peer, python, job=job.folder, out=Path(out), **limits)
        try:
            quality = judged(job, Path(out) / "result.npz")
        except (KeyError, NotFiniteError) as error:
            raise SkippedError("judge", str(error)) from error
    return row | {"quality": quality, "seconds_per_epoch": row["seconds"]["fit"] / job.spec["epochs"]}


if __name__ == "__main__":
    sys.exit(main())
