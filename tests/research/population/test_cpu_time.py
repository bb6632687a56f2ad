"""What a run took is told with what its workers took."""

import multiprocessing
import sys

import pytest

from research.population.cpu_time import cpu_seconds

SECONDS = 0.3


WORK = f"""
import time
until = time.process_time() + {SECONDS}
while time.process_time() < until:
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_that_ended_count_whoever_started_them(method: str) -> None:
    before = cpu_seconds()
    worker = multiprocessing.get_context(method).Process(target=exec, args=(WORK,))
    worker.start()
    worker.join()

    assert worker.exitcode == 0
    assert cpu_seconds() - before >= 0.9 * SECONDS
