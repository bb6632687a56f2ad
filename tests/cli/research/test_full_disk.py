"""A disk that fills up stops a run with one sentence, releases nothing unpaid, and costs nothing but time."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedboard.server.publication import BoardStore

pytestmark = pytest.mark.slow

FULL_DISK_RUN = Path(__file__).with_name("full_disk_run.py")


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs a small disk of its own: unshare -rm is not allowed here")
@pytest.mark.parametrize("share", [0.6, pytest.param(1.3, marks=pytest.mark.thorough)])
def test_a_run_goes_on_when_there_is_room_again(
    tiny: tuple[str, ...], finished: Path, tmp_path: Path, share: float
) -> None:
    kept = [finished / "ledger.sqlite", *(finished / "boards").iterdir()]
    needed = sum(path.stat().st_size for path in kept)
    size = str(int(share * needed / 1024))
    command = ["unshare", "-rm", sys.executable, FULL_DISK_RUN, tmp_path, size, *tiny, "--no-baselines"]

    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    code, said = told["first"]
    assert code == 1, said
    assert said.splitlines()[-1].startswith("fedboard: ")
    assert "free some space" in said.splitlines()[-1]
    assert "--resume" in said.splitlines()[-1]
    assert told["second"][0] == 0, told["second"]
    assert told["verified"] == 5, "ledger and certificate hold, for a simulation"
    assert told["digest"] == BoardStore(finished / "boards").latest().digest
