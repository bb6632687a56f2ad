"""Hostile messages against every parser, by atheris: each is read, or refused as its documentation says.

usage: python benchmarks/fuzz.py [--runs 1e6] [--target NAME ...] [--seed 0] [--processes 2] [--keep FOLDER]
                                 [--json FILE] [--seconds 2] [--controls] [--list]

A target is one parser with messages that the product makes (``fleets/fuzz_port.py``: calls; ``fuzz_boards.py``:
what is published; ``fuzz_sessions.py``: steps of protocols; ``fuzz_files.py``: what lies in files). atheris changes
their bytes, keeps what takes a new branch of the product's code, and changes that further; half of the changes are
of values behind lengths, compression and JSON, and what is signed is signed again. A parser may give a value or
raise what its documentation names; then

* ``crashes``: it raised something else (a bare KeyError, RecursionError, MemoryError, ...), or its process died;
* ``hangs``: a message took more than ``--seconds`` of processor time, or a minute without an end.

Each target has a process of its own, which may take 1 GiB beside what was loaded. Messages that were a finding are
kept in FOLDER, as NAME/finding. ``--controls`` feeds parsers that are broken on purpose. Needs atheris (Linux).
"""

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

MEMORY = 1 << 30
"""Bytes that a process may take beside what is loaded."""
_MOST_FINDINGS = 3
"""Of a target; with so many it is left. Of one that is broken on purpose, one says it."""
_LONGEST_BYTES = 1 << 16
_NO_END_SECONDS = 60
"""Of a message, for libFuzzer's own clock: in one call of a library no alarm is heard."""
_OFTEN = 200
_HANGS = ("HangError", "libFuzzer: timeout")


class HangError(BaseException):
    """A message takes too long; no parser may catch it."""


def targets_of(controls: bool) -> dict[str, Any]:
    """All, or those that are broken on purpose."""
    from fleets import fuzz_boards, fuzz_controls, fuzz_files, fuzz_port, fuzz_sessions

    if controls:
        return fuzz_controls.control_targets()
    network = {**fuzz_port.port_targets(), **fuzz_boards.board_targets()}
    return {**network, **fuzz_sessions.session_targets(), **fuzz_files.file_targets()}


def hunt(options: argparse.Namespace) -> None:
    """Feed one target in this process, which ends with the runs or with a finding."""
    import atheris

    with atheris.instrument_imports(include=["fedboard", "fleets"]):
        target = targets_of(options.controls)[options.target[0]]
    told = {"runs": 0, "read": 0}
    rng = random.Random(options.seed)
    options.corpus.mkdir(exist_ok=True)
    for number, specimen in enumerate(target.specimens):
        (options.corpus / f"specimen-{number}").write_bytes(specimen)

    def one(content: bytes) -> None:
        told["runs"] += 1
        try:
            with _alarm(options.seconds):
                target.read(content)
            told["read"] += 1
        except target.refusals:
            pass
        if told["runs"] % _OFTEN == 0:
            options.json.write_text(json.dumps(told))

    def changed(content: bytes, most: int, seed: int) -> bytes:
        from fleets.mutations import mutant

        return mutant(content, target.form, rng, lambda part: atheris.Mutate(part, most))[:most]

    words = {
        "runs": int(options.runs),
        "seed": options.seed or 1,
        "timeout": _NO_END_SECONDS,
        "rss_limit_mb": 0,
        "max_len": max(_LONGEST_BYTES, *(2 * len(one) for one in target.specimens)),
        "artifact_prefix": f"{options.keep}/",
        "print_final_stats": 1,
    }
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, resource.RLIM_INFINITY))
    arguments = [sys.argv[0], *(f"-{word}={value}" for word, value in words.items()), str(options.corpus)]
    atheris.Setup(arguments, one, custom_mutator=changed)
    atheris.Fuzz()


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """By processor time, so that a busy machine makes no parser slow."""

    def ring(_: int, __: Any) -> None:
        raise HangError

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def search(name: str, runs: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All runs of one target, again from the next seed after a finding; what was found."""
    own, kept = folder / name.replace("/", "-"), options.keep / name.replace("/", "-")
    own.mkdir(parents=True)
    kept.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"messages": 0, "read": 0, "crashes": 0, "hangs": 0, "found": []}
    began = time.monotonic()
    most = 1 if options.controls else _MOST_FINDINGS
    while found["messages"] < runs and len(found["found"]) < most:
        seed = options.seed * 1000 + len(found["found"]) + 1
        told = own / "told.json"
        told.unlink(missing_ok=True)
        words = ["--target", name, "--runs", str(runs - found["messages"]), "--seed", str(seed)]
        words += ["--corpus", str(own / "corpus"), "--keep", str(kept), "--json", str(told)]
        words += ["--seconds", str(options.seconds), *(["--controls"] if options.controls else [])]
        done = subprocess.run([sys.executable, __file__, *words], capture_output=True, errors="replace")
        counted = json.loads(told.read_text()) if told.exists() else {"runs": 0, "read": 0}
        units = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
        found["messages"] += max(1, int(units[1]) if units else counted["runs"])
        found["read"] += counted["read"]
        if done.returncode == 1:
            raise SystemExit(f"{name}: the target cannot be made\n{done.stderr[-3000:]}")
        if done.returncode != 0:
            hang = any(word in done.stdout + done.stderr for word in _HANGS)
            found["hangs" if hang else "crashes"] += 1
            found["found"].append(_said(done))
        elif found["messages"] < runs:
            break  # it has ended by itself, as it was told to
    found["seconds"] = time.monotonic() - began
    print(
        f"{name}: {found['messages']} messages, {found['crashes']} crashes, {found['hangs']} hangs",
        flush=True,
    )
    return found


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    """Of a finding, for people: the traceback, and the message that is kept."""
    kept = re.findall(r"Test unit written to (\S+)", done.stderr)
    return f"exit {done.returncode}, message {' '.join(kept) or 'lost'}\n{done.stdout.strip()[-2500:]}"


def main() -> int:
    """Feed the targets; exit code 1 for a finding, 2 where there is nothing to feed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=float, default=1e6, help="messages of all targets together")
    parser.add_argument("--target", action="append", default=[], help="part of a name; may be given again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of processor time that a message may take"
    )
    parser.add_argument("--keep", type=Path, help="folder of the messages that were a finding")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--controls", action="store_true", help="parsers that are broken on purpose")
    parser.add_argument("--list", action="store_true", help="names of the targets, and no more")
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.corpus is not None:
        hunt(options)
        return 0
    known = {name: one.share for name, one in targets_of(options.controls).items()}
    wanted = options.target
    shares = {
        name: share for name, share in known.items() if not wanted or any(word in name for word in wanted)
    }
    if options.list or not shares:
        print("\n".join(shares) or f"no target has {wanted} in its name")
        return 0 if shares else 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        options.keep = options.keep or Path(place) / "kept"
        each = {
            name: max(1, round(options.runs * share / sum(shares.values()))) for name, share in shares.items()
        }
        with ThreadPoolExecutor(options.processes) as pool:
            found = dict(
                zip(
                    each,
                    pool.map(lambda name: search(name, each[name], options, Path(place) / "own"), each),
                    strict=True,
                )
            )
    told = {key: sum(one[key] for one in found.values()) for key in ("messages", "read", "crashes", "hangs")}
    texts = [f"{name}: {text}" for name, one in found.items() for text in one["found"]]
    told |= {"seconds": time.monotonic() - began, "seed": options.seed, "parsers": found, "found": texts}
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))
    print("\n\n".join(texts))
    print(json.dumps({key: told[key] for key in ("messages", "read", "crashes", "hangs", "seconds")}))
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main())
