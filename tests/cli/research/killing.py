"""Runs of the command in a process of their own, killed at one exact moment (``killed_run.py``)."""

import subprocess
import sys
from pathlib import Path

KILLED_RUN = Path(__file__).with_name("killed_run.py")


def killed(name: str, moment: str, count: int, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, KILLED_RUN, name, moment, count, *arguments]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        start_new_session=True,
    )
