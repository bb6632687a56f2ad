"""Table 1: how fast this machine reads and writes, from its disk to its first-level cache.

Single-threaded. A level is measured by working over and over on half of what it holds; the compiled loops of NumPy
read (a maximum of 64-bit numbers) and write (one value). Disk: a file that is written through to the device, and
read after the kernel was asked to forget it.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fedboard.common.arrays import IntArray
from research.liu.lines import line_panels
from research.shared.experiment import Outcome, Setting

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL = {"L1 cache": 32 << 10, "L2 cache": 1 << 20, "L3 cache": 16 << 20}
_MEMORY_BYTES = 256 << 20
_DISK_BYTES = 128 << 20
_CHUNK_BYTES = 4 << 20
_AT_ONCE_BYTES = 32 << 20
_SECONDS = 0.5
_REPEATS = 10
PUBLISHED: Mapping[str, Mapping[str, str]] = {
    "disk": {"read GB/s": "0.15", "write GB/s": "0.1"},
    "SSD": {"read GB/s": "0.5", "write GB/s": "0.35"},
    "RAM": {"read GB/s": "14", "write GB/s": "9"},
    "L3 cache": {"read GB/s": "16-44", "write GB/s": "7-30"},
    "L1 cache": {"read GB/s": "74-135", "write GB/s": "44-80"},
}


def table_1(setting: Setting) -> Outcome:
    """Read and write bandwidth of each level there is."""
    levels = cache_sizes() | {"RAM": _MEMORY_BYTES}
    found: dict[str, dict[str, float]] = {}
    for done, (name, size) in enumerate(levels.items()):
        setting.on_progress("levels", done, len(levels) + 1)
        working_set = size if name == "RAM" else size // 2
        found[name] = {"holds MiB": size / 2**20} | bandwidth(working_set)
    setting.on_progress("levels", len(levels), len(levels) + 1)
    found["disk"] = {"holds MiB": _DISK_BYTES / 2**20} | _disk(setting.scratch)
    fast, memory = found[next(iter(levels))], found["RAM"]
    return Outcome(
        numbers={"bandwidth": found, "published": PUBLISHED},
        settings={
            "processor": _processor(),
            "seconds_each": _SECONDS,
            "repeats": _REPEATS,
            "file_system": "scratch",
        },
        comparison=(
            "The paper, a laptop of 2011: memory reads 14 GB/s and writes 9, level 1 reads 74 to 135 and writes "
            f"44 to 80, an SSD 0.5 and 0.35. Here, on {_processor()}: memory reads {memory['read GB/s']:.3g} and "
            f"writes {memory['write GB/s']:.3g}, level 1 {fast['read GB/s']:.3g} and {fast['write GB/s']:.3g}, "
            f"what stands for the disk {found['disk']['read GB/s']:.2g} and {found['disk']['write GB/s']:.2g} "
            "GB/s. Numbers of this machine, and of what else ran on it."
        ),
        figures={"table-1": _figure(found)},
    )


def bandwidth(n_bytes: int) -> dict[str, float]:
    """Best of a few attempts at reading and writing so many bytes over and over, GB/s."""
    numbers: IntArray = np.zeros(max(n_bytes // 8, 16), dtype=np.int64)
    # A view whose rows are all the same memory: one call of NumPy goes over it many times.
    times = max(1, _AT_ONCE_BYTES // numbers.nbytes)
    again: IntArray = as_strided(numbers, shape=(times, numbers.size), strides=(0, 8))
    octets = numbers.view(np.uint8)

    def read() -> None:
        again.max(axis=1)

    def write() -> None:
        for _ in range(times):
            octets.fill(1)

    moved = times * numbers.nbytes
    return {"read GB/s": moved / _least(read) / 1e9, "write GB/s": moved / _least(write) / 1e9}


def cache_sizes() -> dict[str, int]:
    """Bytes of the data caches of the first processor; usual sizes where the system does not say."""
    found: dict[str, int] = {}
    for place in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = ((place / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size[-1:] in "KMG" and size[:-1].isdecimal():
            found[f"L{level} cache"] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
    return found or dict(_USUAL)


def _least(act: Callable[[], None]) -> float:
    """Seconds of one call: the least mean over attempts that take a while."""
    best = float("inf")
    for _ in range(_REPEATS):
        calls, spent, begun = 0, 0.0, time.perf_counter()
        while calls == 0 or spent < _SECONDS / _REPEATS:
            act()
            calls, spent = calls + 1, time.perf_counter() - begun
        best = min(best, spent / calls)
    return best


def _disk(folder: Path) -> dict[str, float]:
    place, chunk = folder / "bandwidth.bin", os.urandom(_CHUNK_BYTES)
    begun = time.perf_counter()
    with place.open("wb") as stream:
        for _ in range(_DISK_BYTES // _CHUNK_BYTES):
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    written = time.perf_counter() - begun
    with place.open("rb", buffering=0) as stream:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begun = time.perf_counter()
        while stream.read(_CHUNK_BYTES):
            pass
        read = time.perf_counter() - begun
    place.unlink()
    return {"read GB/s": _DISK_BYTES / read / 1e9, "write GB/s": _DISK_BYTES / written / 1e9}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "a processor that does not say its name"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "a processor that does not say its name"


def _figure(found: Mapping[str, Mapping[str, float]]) -> Any:
    sizes = [of["holds MiB"] for name, of in found.items() if name != "disk"]
    lines = {
        what: (sizes, [of[f"{what} GB/s"] for name, of in found.items() if name != "disk"])
        for what in ("read", "write")
    }
    return line_panels({"one thread": lines}, across="MiB that the level holds", up="GB/s", log="xy")
