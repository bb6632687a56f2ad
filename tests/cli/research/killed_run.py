"""Run ``fedboard`` in this process and send it a signal at one exact moment.

Usage: killed_run.py SIGNAL MOMENT COUNT ARGUMENTS...: SIGNAL arrives just before (``before:...``) or just after
(``after:...``) the COUNT-th call of the function named by MOMENT.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedboard.client.starting import start_quickly

MOMENTS = {
    "book": "fedboard.common.privacy.ledger.ledger:Ledger.book_all",
    "account": "fedboard.common.privacy.ledger.population:Population.book",
    "join": "fedboard.common.privacy.ledger.population:Population.join",
    "publish": "fedboard.server.publication:BoardStore.publish",
    "record": "fedboard.simulations.runs.directory:RunDirectory.append",
    "config": "fedboard.simulations.runs.directory:RunDirectory.write_json",
    "report": "fedboard.simulations.simulate:write_report",
}


def arm(moment: str, count: int, number: int) -> None:
    when, _, name = moment.partition(":")
    module, _, path = MOMENTS[name].partition(":")
    owner: Any = importlib.import_module(module)
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original: Callable[..., Any] = getattr(owner, attribute)
    calls = 0

    def watched(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and when == "before":
            hit(number)
        result = original(*arguments, **keywords)
        if calls == count and when == "after":
            hit(number)
        return result

    setattr(owner, attribute, watched)


def hit(number: int) -> None:
    """Ctrl-C reaches the whole process group, as in a terminal; anything else this process alone."""
    if number == signal.SIGINT:
        os.killpg(os.getpgrp(), number)
    else:
        os.kill(os.getpid(), number)


def without_pictures() -> None:
    """Drawing takes longer than everything else in a run this small."""
    import fedboard.simulations.simulate as module

    def written(run: Path) -> Path:
        (run / "report.html").write_text("<p>left out")
        return run / "report.html"

    module.write_report = written


if __name__ == "__main__":
    start_quickly()
    signal_name, moment, count = sys.argv[1:4]
    without_pictures()
    arm(moment, int(count), getattr(signal, signal_name))
    from fedboard.cli.main import commands

    commands.main(sys.argv[4:])
