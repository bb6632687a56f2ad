"""A whole `fedboard simulate`, and what of its time compiled kernels take."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_IN_A_PROCESS = """
import contextlib, io, json, sys, time
from unittest import mock

from round_parts.stopwatch import Stopwatch

from fedboard.cli.main import main
from fedboard.common.kernels import backends

made, watch = {}, Stopwatch()
found = backends.implementation


def implementation(backend, kernel):
    # The module of this kernel with its compiled functions, and those that call them, on the clock.
    module = found(backend, kernel)
    if (backend, kernel) not in made:
        entries = {
            name: watch.timed(kernel, value)
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value) and value.__module__ == module.__name__
        }
        made[backend, kernel] = type("Timed", (), {name: staticmethod(entry) for name, entry in entries.items()})
    return made[backend, kernel]


for module in [module for name, module in sys.modules.items() if name.startswith("fedboard.")]:
    if getattr(module, "implementation", None) is found:
        module.implementation = implementation
wall, cpu = time.perf_counter(), time.process_time()
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, watch.seconds]))
"""


def whole_run(data: Path) -> dict[str, float]:
    """Wall and CPU seconds of a whole run with one worker, of the second one, which compiles nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2):
            arguments = ["simulate", "--data", str(data), "--workers", "1", "--out", f"{folder}/{number}"]
            told = subprocess.run(
                [sys.executable, "-c", _IN_A_PROCESS, *arguments],
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
    wall, cpu, kernels = json.loads(told)
    compiled = sum(kernels.values())
    return {
        "simulate.wall_seconds": wall,
        "simulate.cpu_seconds": cpu,
        "simulate.kernel_cpu_seconds": compiled,
        "simulate.share_not_kernels": 1.0 - compiled / cpu,
        **{f"simulate.kernel_cpu_seconds.{name}": seconds for name, seconds in kernels.items()},
    }
