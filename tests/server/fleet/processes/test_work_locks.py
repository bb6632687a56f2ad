"""Whether a ServerApp is at work is known at once, however it ended."""

import signal
import subprocess
import sys
from pathlib import Path

from fedboard.server.fleet.processes.work_locks import at_work, is_at_work


def test_nobody_is_at_work_before_the_first_and_after_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "trial"

    assert not is_at_work(folder)
    with at_work(folder), at_work(folder):
        assert is_at_work(folder)
        assert is_at_work(folder)
    assert not is_at_work(folder)


def test_a_process_that_was_killed_is_not_at_work(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from fedboard.server.fleet.processes.work_locks import at_work\n"
        "with at_work(Path(sys.argv[1])):\n    print('there', flush=True)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        assert is_at_work(tmp_path)

        process.send_signal(signal.SIGKILL)
        process.wait()

    assert not is_at_work(tmp_path)
