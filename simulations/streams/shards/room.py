"""Whether the disk has room, before it is filled with what would then be of no use."""

import shutil
from pathlib import Path

from fedboard.common.errors import StorageError

_SPARE = 1 << 26
"""Bytes that are left to everybody else."""


def require_room(folder: Path, n_bytes: int) -> None:
    """See that so many bytes more can be written to a folder.

    Raises:
        StorageError: there is no room for them.
    """
    free = shutil.disk_usage(folder).free
    if free < n_bytes + _SPARE:
        raise StorageError(
            f"{folder.parent}: {in_words(free)} are free, and {in_words(n_bytes + _SPARE)} are needed for the next "
            "step; nothing was kept. Free some space, or name a place on another disk with --out."
        )


def in_words(n_bytes: float) -> str:
    """A number of bytes, for people."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"
