"""Mutated messages against every parser on both sides: each is read, or refused as its documentation says.

usage: python benchmarks/fuzz.py [--messages 1000000] [--seed 0] [--only WORD] [--processes 2] [--keep FOLDER]
                                 [--json FILE [--resume]] [--seconds 1] [--silence 60] [--controls] [--list]
       python benchmarks/fuzz.py --merge PART.json PART.json ... [--json FILE]

Specimens are made by the product itself; mutants of them by flips, cuts, splices, lengths and, behind lengths,
checksums and signatures, by changed values. What is signed is signed again after it was changed: the attacker has
the key. A parser may give a value or raise what its documentation names; then

* ``crashes``: it raised something else (a bare KeyError, RecursionError, MemoryError, ...), or its process died;
* ``hangs``: it took more than a second of processor time, or a minute without an end.

Each process may take 1 GiB of memory beside what was loaded (``RLIMIT_AS``): what asks for more is a MemoryError,
which is a crash. Mutants that go through a branch of the product's code where none went before are mutated further.

Ctrl-C ends it with a report of what was done, and the report in FILE is brought up to date as it runs; ``--resume``
goes on from there. ``--merge`` adds up the reports of runs with seeds of their own, on one machine or several.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fleets.fuzz.bench import MEMORY, Bench, jobs_of
from fleets.fuzz.controls import broken_parsers
from fleets.fuzz.reports import keep, merged, report_of, show, write
from fleets.fuzz.trials import Hunt, Parser, quiet

_OFTEN = 20.0
"""Seconds between two reports in the file."""


def main() -> int:
    """Feed the parsers, or merge such runs; exit code 1 for a finding, 2 where nothing can be run."""
    options = _options()
    if options.merge:
        return _told(merged([json.loads(part.read_text()) for part in options.merge]), options.json)
    parsers = _parsers(options)
    if options.list or not parsers:
        print("\n".join(one.name for one in parsers) or f"no parser has {options.only!r} in its name")
        return 0 if parsers else 2
    quiet()
    if (unread := _unread(parsers)) and not options.controls:
        print("\n".join(unread))
        return 2
    before = json.loads(options.json.read_text()) if options.resume and options.json.exists() else None
    bench = Bench(parsers, processes=options.processes, seconds=options.seconds, silence=options.silence)
    done = {} if before is None else {name: one["messages"] for name, one in before["parsers"].items()}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    run = _Run(options, bench, before)
    try:
        for _ in bench.run(jobs_of(parsers, options.messages, options.seed, done)):
            run.progress()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
    return run.end()


class _Run:
    """A run as it goes on: what it reports, and where to."""

    def __init__(self, options: argparse.Namespace, bench: Bench, before: dict[str, Any] | None) -> None:
        self._options, self._bench, self._before = options, bench, before
        self._began = self._written = time.monotonic()

    def progress(self) -> None:
        """A line at a terminal; now and then one elsewhere, and the report so far."""
        now = time.monotonic()
        if (rare := now - self._written > _OFTEN) or sys.stderr.isatty():
            found = sum(len(tally.found) for tally in self._bench.tallies.values())
            end = "" if sys.stderr.isatty() else "\n"
            print(f"\r{self._bench.messages} messages, {found} found", end=end, file=sys.stderr, flush=True)
        if rare:
            self._written = now
            self._write()

    def end(self) -> int:
        """The exit code."""
        return _told(self._write(), None)

    def _write(self) -> dict[str, Any]:
        report = self._report()
        if self._before is not None:
            report = {**report, **merged([self._before, report])}
        if self._options.keep:
            keep(self._bench.tallies, self._options.keep)
        if self._options.json:
            write(report, self._options.json)
        return report

    def _report(self) -> dict[str, Any]:
        about = {"seed": self._options.seed, "processes": self._options.processes}
        about |= {"memory_bound_mb": MEMORY >> 20, "hang_seconds": self._options.seconds}
        about["seconds"] = round(time.monotonic() - self._began, 1)
        return {**report_of(self._bench.tallies), **about}


def _told(report: dict[str, Any], place: Path | None) -> int:
    show(report)
    if place is not None:
        write(report, place)
    return 1 if report["crashes"] or report["hangs"] else 0


def _interrupt(_: int, __: Any) -> None:
    raise KeyboardInterrupt


def _parsers(options: argparse.Namespace) -> list[Parser]:
    if options.controls:
        return broken_parsers()
    from fleets.fuzz.parsers import all_parsers

    return [one for one in all_parsers() if options.only in one.name]


def _unread(parsers: Sequence[Parser]) -> list[str]:
    """Specimens that are refused: a mistake of this benchmark, or of the product. Found in a process of its own, so
    that no server runs in this one when others are forked off it.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send(_refused(parsers)), daemon=True)
    process.start()
    theirs.close()
    try:
        return list(ours.recv())
    except EOFError:
        return ["a specimen ended the process that read it"]
    finally:
        process.join()


def _refused(parsers: Sequence[Parser]) -> list[str]:
    hunts = [Hunt(parser=one, seconds=60.0, rng=random.Random(0)) for one in parsers]
    return [f"{h.parser.name}: its specimen: {out.place} {out.detail}" for h in hunts for _, out in h.begin()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="in all, shared among the parsers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parsers with this in their names")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of processor time that a message may take"
    )
    parser.add_argument("--silence", type=float, default=60.0, help="seconds until a silent process is ended")
    parser.add_argument("--json", type=Path, help="file for the report")
    parser.add_argument("--resume", action="store_true", help="go on from the report in the file of --json")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="add up reports, and end")
    parser.add_argument("--keep", type=Path, help="folder for the messages of crashes and hangs")
    parser.add_argument("--controls", action="store_true", help="parsers that are broken on purpose")
    parser.add_argument("--list", action="store_true", help="name the parsers and end")
    options = parser.parse_args()
    if options.resume and options.json is None:
        parser.error("--resume needs the file of --json")
    return options


if __name__ == "__main__":
    sys.exit(main())
