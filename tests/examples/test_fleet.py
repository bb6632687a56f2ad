"""The fleet's quickstart runs as it stands: keys, server, three devices, a trained board, recommendations."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FLEET = Path(__file__).parents[2] / "examples" / "fleet"
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "fleet.md"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_quickstart_trains_publishes_and_recommends(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    beside_python = str(Path(sys.executable).parent)
    ended = subprocess.run(
        ["bash", str(FLEET / "quickstart.sh"), str(tmp_path / "demo"), str(min(port, 65_000))],
        env={**os.environ, "PATH": f"{beside_python}:{os.environ['PATH']}", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 nodes admitted" in ended.stdout
    assert "the training is complete" in ended.stdout
    assert "checks passed" in ended.stdout
    assert "predicted rating" in ended.stdout
    assert "Given so far: epsilon 5 of 6" in ended.stdout


def test_the_guide_pastes_the_scripts_commands() -> None:
    script = (FLEET / "quickstart.sh").read_text(encoding="utf-8")
    guide = GUIDE.read_text(encoding="utf-8")
    in_both = {
        line.split()[1]: line.strip() for line in script.splitlines() if line.strip().startswith("fedboard ")
    }

    for command in in_both:
        assert f"fedboard {command}" in guide
