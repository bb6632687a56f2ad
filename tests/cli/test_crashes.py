"""Kill -9 at random points, in short; ``benchmarks/crashes.py --kills 20 --controls`` is the long form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CRASHES = Path(__file__).parents[2] / "benchmarks" / "crashes.py"


def test_whatever_was_released_is_booked_and_no_noise_is_drawn_twice(tmp_path: Path) -> None:
    record = tmp_path / "crashes.json"
    command = [sys.executable, CRASHES, "--kills", "3", "--seed", "4", "--json", record]

    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(record.read_text())
    assert told["violations"] == 0
    for noise in ("seeded", "secure"):
        assert told[noise]["kills"] >= 3
        assert set(told[noise]["landed"]) - {"before the ledger was there", "before the first board"}
