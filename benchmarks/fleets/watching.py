"""What a process does, told as it does it: each step, each draw of noise. Patches this process for good."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def watch(steps: Mapping[str, tuple[Any, str]], on_step: Callable[[str], None]) -> None:
    """Tell ``on_step`` before and after every step, of which ``steps`` has the owner and the name."""
    for name, (owner, attribute) in steps.items():
        setattr(owner, attribute, watched(name, getattr(owner, attribute), on_step))


def watched(name: str, original: Callable[..., Any], on_step: Callable[[str], None]) -> Callable[..., Any]:
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        on_step(f"before: {name}")
        result = original(*arguments, **keywords)
        on_step(f"after: {name}")
        return result

    return replaced


def watch_draws(booked: Any, on_draw: Callable[[str, int, int, str], None]) -> None:
    """Tell of every draw before its values are handed over: release, first row, rows, digest of the key."""
    original = booked.publish

    def publish(
        self: Any, sums: Any, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> Any:
        values = original(
            self, sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits
        )
        on_draw(self.release.name, start_row, int(sums.shape[0]), hashlib.sha256(self.stream.key).hexdigest())
        return values

    booked.publish = publish


def append_line(path: Path, line: str) -> None:
    """One line more; a single ``write``, so that a kill splits none."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, (line + "\n").encode())
    os.close(log)
