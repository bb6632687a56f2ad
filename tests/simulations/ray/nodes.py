"""Ray nodes as processes of a test or a benchmark, on loopback, in a folder of their own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "OMP_NUM_THREADS": "1",
}
"""On loopback alone, without reports, and soon sure that a node is gone."""
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # of whoever connects; Ray reads it as it is imported
_OBJECT_STORE = 100 << 20
_PROGRAM = """
import sys
from ray.cluster_utils import Cluster

folder, memory = sys.argv[1], int(sys.argv[2])
same = {"num_cpus": 1, "object_store_memory": memory, "include_log_monitor": False}
alone = {"temp_dir": folder, "include_dashboard": False, "no_monitor": True}  # whose work it is to start nodes
cluster = Cluster(True, head_node_args={**same, **alone})
print(cluster.address, flush=True)
for line in sys.stdin:
    node = cluster.add_node(**same)
    print(node.all_processes["raylet"][0].process.pid, flush=True)
cluster.shutdown()
"""


class Nodes:
    """A head of one core, and what joins it; the stack ends them all."""

    def __init__(self, stack: ExitStack, *, object_store: int = _OBJECT_STORE) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # a socket's path must be short
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        Path("/tmp/ray").mkdir(
            exist_ok=True
        )  # where a cluster of Ray's tests notes its address, and which it expects
        self.log = self.folder / "log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self.folder / "t"), str(object_store)],
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )
        stack.callback(self._end)
        self.address = self._told()

    def join(self) -> int:
        """Another node of one core; the process id of its raylet, whose end is the node's."""
        assert self._process.stdin is not None
        self._process.stdin.write("join\n")
        self._process.stdin.flush()
        return int(self._told())

    def _told(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, self.log.read_text()
        return line

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
