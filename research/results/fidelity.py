"""Write ``research/fidelity.md``: what the four papers have, where it is here, and what it printed.

usage: python research/results/fidelity.py                      # writes the page
       python research/results/fidelity.py --check  # exit code 1 if it is not what would be written
       python research/results/fidelity.py --take RUN[=FLAGS]...  # keeps what runs printed, then writes
       python research/results/fidelity.py --measure [WORD]  # runs all other commands, or those with WORD in them

``fidelity/parts.toml`` says of each part of a paper where it is and whether it agrees; what commands
printed is kept in ``fidelity/printed.json``, of simulations with seeds, about nobody.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "fidelity.md"
ROWS, PRINTED = HERE / "parts.toml", HERE / "printed.json"
PAPERS = {
    "krichene": ("Krichene et al. (2023)", "Multi-Task Differential Privacy Under Distribution Skew"),
    "liu": ("Liu, Wang, Smola (2015)", "Fast Differentially Private Matrix Factorization"),
    "epasto": ("Epasto et al. (2020)", "Smoothly Bounding User Contributions in Differential Privacy"),
    "jain": ("Jain et al. (2021)", "Differentially Private Model Personalization"),
}
VERDICTS = {
    "agrees": "what the paper says is found",
    "in part": "some of it is found",
    "differs": "something else is found, or done on purpose",
    "no number": "the paper prints no number to hold against",
    "not obtainable": "it cannot be had here, and why",
}
KEYS = {"name", "what", "command", "where", "tested", "verdict", "why"}
HEAD = """# Fidelity: every claim of the four papers

Each algorithm, each theorem with an algorithm in it, each experiment, figure and table of the four papers this
software is built from: where it is, the command that runs it, what that printed, and whether it agrees. Netflix,
Yahoo, ML-10M, ML-20M and MSD are not here: where a figure needs them, the command takes your copy (`--data`), and
what is printed below is of the set that it names. Simulations, on made-up or public data; noise comes from seeds.

Other anchors: DP-SGD on ml-1m beside ours ([accuracy](../docs/guide/accuracy.md#beside-dp-sgd)), bytes of SecEmb
beside our two servers ([two servers](../docs/guide/two-servers.md#beside-secemb)), an app for Flower
([Flower](../docs/guide/flower.md)).

*This page is generated from [`parts.toml`](results/parts.toml) and
[`printed.json`](results/printed.json) by [`fidelity.py`](results/fidelity.py); tests run every
command on it at test size.*
"""


def rows() -> dict[str, list[dict[str, Any]]]:
    """By paper.

    Raises:
        ValueError: a row lacks something, or has what there is not.
    """
    found: dict[str, list[dict[str, Any]]] = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    for paper, own in found.items():
        for row in own:
            wrong = {*row} - KEYS or {"name", "what", "verdict"} - {*row}
            if paper not in PAPERS or wrong or row["verdict"] not in VERDICTS:
                raise ValueError(
                    f"{ROWS.name}: {paper}: {row.get('name')}: {sorted(wrong) or row['verdict']}"
                )
    return found


def printed() -> dict[str, dict[str, Any]]:
    """By ``PAPER FIGURE``, or by the whole command where it is no reproduction."""
    found: dict[str, dict[str, Any]] = json.loads(PRINTED.read_text(encoding="utf-8"))
    return found


def key_of(command: str) -> str | None:
    """``PAPER FIGURE`` of a command of ``python research/run.py``; None for any other."""
    words = shlex.split(command)
    return " ".join(words[2:4]) if words[:2] == ["python", "research/run.py"] else None


def page() -> str:
    """The whole page."""
    everything, kept = rows(), printed()
    parts = [HEAD, _legend(everything)]
    for paper, (authors, title) in PAPERS.items():
        own = everything.get(paper, [])
        parts += [f"## {authors}\n", f"*{title}*\n", _table(paper, own)]
        shown: dict[str, str] = {}
        parts += [_told(paper, row, kept, shown) for row in own]
    return "\n".join(parts).rstrip() + "\n"


def _legend(everything: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    head = ["verdict", "means", *PAPERS]
    lines = []
    for verdict, meaning in VERDICTS.items():
        counts = [sum(row["verdict"] == verdict for row in everything.get(paper, [])) for paper in PAPERS]
        lines.append([verdict, meaning, *(str(count) for count in counts)])
    return _markdown(head, lines)


def _table(paper: str, own: Iterable[Mapping[str, Any]]) -> str:
    lines = [[f"[{row['name']}](#{_anchor(paper, row)})", row["what"], row["verdict"]] for row in own]
    return _markdown(["", "what", "verdict"], lines)


def _heading(paper: str, row: Mapping[str, Any]) -> str:
    """Distinct on the page, since each paper has a figure 1."""
    return f"{paper.capitalize()}, {row['name'][0].lower()}{row['name'][1:]}"


def _anchor(paper: str, row: Mapping[str, Any]) -> str:
    """As the code host and the site make it of the heading."""
    kept = "".join(c for c in _heading(paper, row).lower() if c.isalnum() or c in " -_")
    return "-".join(kept.split(" "))


def _told(
    paper: str, row: Mapping[str, Any], kept: Mapping[str, Mapping[str, Any]], shown: dict[str, str]
) -> str:
    """A part's own section; what a command printed is shown once, by the first part that names it."""
    parts = [
        f"### {_heading(paper, row)}\n",
        f"{row['what']}. **{row['verdict'].capitalize()}.** {row.get('why', '')}".rstrip(),
    ]
    if "where" in row:
        parts.append("\nIn " + ", ".join(f"[`{place}`](../{place})" for place in row["where"]) + ".")
    if "command" in row:
        parts.append(f"\n```\n{row['command']}\n```\n")
        key = key_of(row["command"]) or row["command"]
        if key in shown:
            parts.append(f"What it printed stands [above](#{shown[key]}).")
        elif key in kept:
            shown[key] = _anchor(paper, row)
            parts.append("".join(f"> {line}\n" for line in _wrapped(kept[key]["comparison"])))
            parts.append(_how(key, kept[key]))
        else:
            parts.append("Not run at full size for this page.")
    return "\n".join(parts) + "\n"


def _how(key: str, record: Mapping[str, Any]) -> str:
    memory = "" if record.get("peak_mib") is None else f", at most {record['peak_mib']} MiB in a process"
    flags = f" {record['flags']}" if record["flags"] else ""
    command = key if key.startswith("fedboard ") else f"python research/run.py {key}"
    return f"By `{command}{flags}`: {record['seconds']:.0f} s on 2 shared cores{memory}."


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text.replace("|", "\\|"), 130, break_long_words=False, break_on_hyphens=False)


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    body = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in body) + "\n"


def take(runs: Iterable[str]) -> None:
    """Keep what runs printed: the sentence, seconds and memory; of a run that is kept already the newer.

    Args:
        runs: folders, each with the flags it was run with after ``=``, if there were any.
    """
    kept = printed() if PRINTED.exists() else {}
    for run in runs:
        folder, _, flags = run.partition("=")
        record = json.loads((Path(folder) / "numbers.json").read_text(encoding="utf-8"))
        kept[f"{record['paper']} {record['figure']}"] = {
            "comparison": record["comparison"],
            "seconds": record["seconds"],
            "peak_mib": record.get("peak_mib"),
            "flags": flags,
        }
    _keep(kept)


def measure(word: str = "") -> None:
    """Run every command that is no reproduction, as it stands, and keep what it printed, seconds and memory.

    Args:
        word: what a command must have in it to be run; others are left as they were.
    """
    kept = printed()
    commands = {row["command"] for own in rows().values() for row in own if "command" in row}
    for command in sorted(command for command in commands if key_of(command) is None):
        if word not in command:
            continue
        print(command, flush=True)
        kept[command] = _measured(command)
    known = {key: kept[key] for key in kept if key in commands or not key.startswith("fedboard ")}
    _keep(known)


def _measured(command: str) -> dict[str, Any]:
    """One of them, in an empty folder.

    Raises:
        RuntimeError: it failed.
    """
    asking = command.startswith("fedboard ask ")
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        started = time.monotonic()
        with subprocess.Popen([*shlex.split(command), "--json"], cwd=place, stdout=said) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{command} ended with exit code {process.returncode}")
        said.seek(0)
        record = json.load(said)
    return {
        "comparison": _answered(record) if asking else _trained(record),
        "seconds": round(time.monotonic() - started, 3),
        "peak_mib": round(used.ru_maxrss / 2**10),
        "flags": "",
    }


def _answered(record: Mapping[str, Any]) -> str:
    low, high = record["interval"] or (None, None)
    noise = "" if low is None else f", 95 % of its noise within {low:.4g} to {high:.4g}"
    paid = f"epsilon {record['epsilon']:g} spent of {record['budget']:g}"
    return f"On the made-up set: {record['value']:.4g}{noise}, {paid}."


def _trained(record: Mapping[str, Any]) -> str:
    epsilon = record["guarantee"]["epsilon"]
    return f"On the made-up set, epsilon {epsilon:.3g} by its certificate: {record['verdict']}"


def _keep(kept: Mapping[str, Any]) -> None:
    PRINTED.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Take what is named, then write or check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", nargs="+", metavar="RUN[=FLAGS]", default=[])
    parser.add_argument("--measure", nargs="?", const="", metavar="WORD")
    asked = parser.parse_args()
    if asked.take:
        take(asked.take)
    if asked.measure is not None:
        measure(asked.measure)
    text = page()
    if asked.check:
        sys.exit(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
