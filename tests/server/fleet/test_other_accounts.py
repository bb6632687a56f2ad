"""Other accounts on the server's machine: whoever has no credential starts nothing there."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fedboard.server.fleet.processes.children import _descendants
from tests.server.fleet.deployed import Fleet

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")]

_NOBODY = 65534
_LISTENS = "0A"
_START = """
import os, sys
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab

project = '''[project]
name = "mine"
version = "1.0.0"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "me"
[tool.flwr.app.components]
serverapp = "mine:app"
clientapp = "mine:app"
'''
files = {{"pyproject.toml": project.encode(), "mine.py": b"print('as the server')"}}
request = StartRunRequest(fab=fab_to_proto(Fab("", build_fab_from_files(files)[0], {{}})))

def start(port):
    for scheme in ("https", "http"):
        client = ControlHttpClient(scheme + "://127.0.0.1:" + port, verify=False, timeout=10.0)
        try:
            print("run", client.StartRun(request).run_id, "at", port)
        except Exception as error:
            print("no run:", type(error).__name__, port)

start("1")  # whatever is still to be imported
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
for port in sys.argv[1:]:
    start(port)
"""
"""Asks each of these ports to start code, with nothing but what is installed; as nobody, where that is allowed."""


class StartedError(AssertionError):
    """Somebody has started code on the server."""


def ports_of(pid: int) -> set[int]:
    """On which this process and all below it listen."""
    mine = set[str]()
    for each in (pid, *_descendants(pid)):
        with suppress(OSError):  # closed meanwhile, or ended
            mine |= {os.readlink(handle) for handle in Path(f"/proc/{each}/fd").iterdir()}
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == _LISTENS and f"socket:[{row[9]}]" in mine
    }


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
@pytest.mark.xfail(raises=StartedError, strict=True, reason="SuperLink's port asks for no credential")
def test_nobody_without_a_credential_starts_code_on_the_server(tmp_path: Path) -> None:
    """From another account where this one may become another, else from this one."""
    fleet = Fleet(tmp_path, protocol="trusted")
    network = fleet.settings.network
    awaited = {network.port, getattr(network, "superlink_port", network.port)}
    fleet.start("server")
    try:
        server = fleet._processes["server"].pid
        fleet.wait(lambda: awaited <= ports_of(server), "port that is listened on")
        found = subprocess.run(
            [sys.executable, "-c", _START.format(nobody=_NOBODY), *map(str, sorted(ports_of(server)))],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        assert found.stdout.count("no run:") >= 2, "the attack itself works"
        if "\nrun " in found.stdout:
            raise StartedError(found.stdout)
    finally:
        fleet.end_all(["server"], signal.SIGTERM)
