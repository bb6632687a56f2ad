"""Workers forked from one server draw nothing twice, see what a new process sees, and end with their parent."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest

from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.engine.starting import start_methods

pytestmark = pytest.mark.slow

FORKED = pytest.mark.skipif("forkserver" not in start_methods(), reason="needs a fork server")


DRAWING = """
import os, random, secrets, tempfile, uuid
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from fedboard.common.privacy.releases.noise import SecureNoise

def drawn():
    return {
        "noise": SecureNoise().stream("release").bits(0, 4).tobytes(),
        "the system": os.urandom(32),
        "secrets": secrets.token_bytes(32),
        "Python": random.randbytes(32),
        "NumPy": np.random.bytes(32),
        "NumPy's generators": np.random.default_rng().bytes(32),
        "OpenSSL": X25519PrivateKey.generate().private_bytes_raw(),
        "uuid": uuid.uuid4().bytes,
        "names": next(tempfile._get_candidate_names()).encode(),
    }
"""
"""What a process draws from everything that it could draw noise from."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], dict[str, bytes]]]:
    """``DRAWING``, where workers can import it."""
    place = tmp_path_factory.mktemp("drawing")
    (place / "drawing_for_workers.py").write_text(DRAWING)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield importlib.import_module("drawing_for_workers").drawn


@pytest.fixture(scope="module")
def pool(drawn: Callable[[], dict[str, bytes]]) -> Iterator[WorkerPool]:
    with WorkerPool(3) as three:
        yield three


def test_no_two_workers_draw_the_same(pool: WorkerPool, drawn: Callable[[], dict[str, bytes]]) -> None:
    with WorkerPool(2) as others:
        drawings = [*pool.run([drawn] * 3), *others.run([drawn] * 2), drawn()]

    for source in drawings[0]:
        assert len({drawing[source] for drawing in drawings}) == len(drawings), source


@FORKED
def test_workers_are_forked_from_a_process_with_one_thread_that_has_imported_what_they_need(
    pool: WorkerPool,
) -> None:
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]

    assert pool.run([os.getppid] * 3) == [server] * 3
    assert len(list(Path(f"/proc/{server}/task").iterdir())) == 1
    assert "numpy" in Path(f"/proc/{server}/maps").read_text()


LIGHT = """
import multiprocessing.forkserver, os, sys
from pathlib import Path
from fedboard.simulations.engine.pool import WorkerPool

if __name__ == "__main__":
    with WorkerPool(2, compiled=sys.argv[1] == "compiled") as two:
        two.run([os.getpid] * 2)
        server = multiprocessing.forkserver._forkserver._forkserver_pid
        print("llvmlite" in Path(f"/proc/{server}/maps").read_text())
"""


@FORKED
@pytest.mark.parametrize("kernels", ["compiled", "interpreted"])
def test_a_compiler_is_loaded_if_and_only_if_kernels_are_compiled(tmp_path: Path, kernels: str) -> None:
    (tmp_path / "script.py").write_text(LIGHT)

    told = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), kernels],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert told.stdout == f"{kernels == 'compiled' and has_compiler()}\n"


@pytest.mark.parametrize("error", [OSError("AF_UNIX path too long"), EOFError()])
def test_without_a_fork_server_workers_start_from_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(forkserver, "ensure_running", fails)

    with WorkerPool(2) as two:
        assert two.run([os.getppid] * 2) == [os.getpid()] * 2


SCRIPT = """
import multiprocessing.forkserver, os, signal
from fedboard.simulations.engine.pool import WorkerPool

if __name__ == "__main__":
    pool = WorkerPool(2)
    pool.run([os.getpid] * 2)
    print(*pool.process_ids, multiprocessing.forkserver._forkserver._forkserver_pid or "", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_they_end_with_their_parent_and_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    here, seen = tmp_path / "here", tmp_path / "seen"
    here.mkdir()
    (here / "msgspec.py").write_text(f"open({str(seen)!r}, 'w')")
    (tmp_path / "script.py").write_text(SCRIPT)

    ended = subprocess.run(
        [sys.executable, tmp_path / "script.py"], cwd=here, capture_output=True, text=True, check=False
    )

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    processes = [int(pid) for pid in ended.stdout.split()]
    assert len(processes) >= 2
    deadline = time.monotonic() + 60.0
    while any(map(runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(runs, processes))
    assert not seen.exists()


def runs(process: int) -> bool:
    """Whether it has not ended; whoever inherits the ended may take long to notice."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False
    )
    return state.stdout.strip()[:1] not in ("", "Z")
