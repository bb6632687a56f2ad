"""The fleet's quickstart runs as it stands: keys, server, three devices, a trained board, recommendations."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_ports

FLEET = Path(__file__).parents[2] / "examples" / "fleet"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_quickstart_trains_publishes_and_recommends(tmp_path: Path) -> None:
    pairs = iter(lambda: tuple(free_ports(2)), ())
    port = next(first for first, second in pairs if second == first + 1)
    beside_python = str(Path(sys.executable).parent)
    ended = subprocess.run(
        ["bash", str(FLEET / "quickstart.sh"), str(tmp_path / "demo"), str(port)],
        env={**os.environ, "PATH": f"{beside_python}:{os.environ['PATH']}", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "up to 3 devices, protocol trusted" in ended.stdout
    assert "the training is complete" in ended.stdout
    assert "checks passed" in ended.stdout
    assert "predicted rating" in ended.stdout
    assert "Given so far: epsilon 5 of 5" in ended.stdout
