"""Small disks of their own, which can be full: file systems in memory, in a mount namespace of this process.

They go with it. ``unshare`` needs no administrator where the kernel lets users make namespaces.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

INSIDE = "SOAK_INSIDE"
"""Environment variable of a process that may mount."""
_BALLAST = "ballast"
_STEP = 1 << 16


def can_mount() -> bool:
    """Whether a process of this account may have file systems of its own."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


def go_inside(words: Sequence[str]) -> None:
    """Start this program again where it may mount; returns where that is not allowed, or it is there already."""
    if os.environ.get(INSIDE) is not None or not can_mount():
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-rm", sys.executable, *words])


class Disk:
    """One file system in memory; an ordinary folder where this process may not mount."""

    def __init__(self, folder: Path, *, megabytes: int) -> None:
        """Make the folder, and mount over it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.is_small = folder, os.environ.get(INSIDE) is not None
        if self.is_small:
            options = f"size={megabytes}m,mode=0700"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)

    def fill(self) -> None:
        """Leave no byte."""
        with (self.folder / _BALLAST).open("wb", buffering=0) as ballast:
            for size in (_STEP, 1):
                with suppress(OSError):
                    while ballast.write(bytes(size)):
                        pass

    def free(self) -> None:
        """Give the room back."""
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go, also of what still uses it."""
        if self.is_small:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
