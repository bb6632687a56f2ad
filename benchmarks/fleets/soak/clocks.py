"""Wall clocks that can be set, one for each machine of a soak; see ``clock.c``."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
DAY = 86_400.0
_NANOSECONDS = 1_000_000_000


def build(folder: Path) -> Path | None:
    """The library that every process is started with; None where there is no C compiler, or no Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or os.uname().sysname != "Linux":
        return None
    library = folder / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return library if done.returncode == 0 else None


class Clocks:
    """By how much each machine's wall clock is ahead of this machine's, in seconds."""

    def __init__(self, folder: Path, library: Path | None) -> None:
        """All clocks are right."""
        self._folder, self.library = folder, library
        self._ahead: dict[str, float] = {}
        self._all = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def simulated(self) -> float:
        """Seconds that all clocks were put ahead, for time that passed in the simulation alone."""
        return self._all

    def environment(self, machine: str) -> dict[str, str]:
        """What a process of this machine is started with."""
        if self.library is None:
            return {}
        self._ahead.setdefault(machine, 0.0)
        self._write(machine)
        return {"LD_PRELOAD": str(self.library), "SOAK_CLOCK": str(self._path(machine))}

    def pass_by(self, seconds: float) -> None:
        """Time passes for everybody."""
        self._all += seconds
        for machine in self._ahead:
            self._write(machine)

    def set(self, machine: str, ahead: float) -> None:
        """Put one machine's clock ahead, or back, of all others'."""
        self._ahead[machine] = ahead
        self._write(machine)

    def _path(self, machine: str) -> Path:
        return self._folder / f"{machine}.clock"

    def _write(self, machine: str) -> None:
        """In place: it is mapped. Eight bytes in one write."""
        content = struct.pack("=q", int((self._all + self._ahead[machine]) * _NANOSECONDS))
        handle = os.open(self._path(machine), os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(handle, content, 0)
        os.close(handle)
