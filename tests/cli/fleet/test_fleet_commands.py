"""The commands of server and device, as far as they go without each other."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fedboard.common.board import Board
from fedboard.common.boards.roots import RootFolder
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder
from tests.commands import fedboard
from tests.ports import free_ports
from tests.server.fleet.made import N_ITEMS, a_fleet


def on_free_ports(folder: Path, **sections: Any) -> FleetSettings:
    public, ops = free_ports(2)
    network = {"address": f"127.0.0.1:{public}", "ops": f"127.0.0.1:{ops}"}
    return a_fleet(folder, **{"network": network, **sections})


def check(folder: Path) -> Result:
    return fedboard("server", "--config", folder / "fleet.toml", "--check")


def test_check_makes_board_0_and_says_what_it_promises(tmp_path: Path) -> None:
    settings = on_free_ports(tmp_path, privacy={"seed": None})
    checked = check(tmp_path)

    assert checked.exit_code == 0, checked.stderr
    assert f"adadpals over {N_ITEMS} items, epsilon 5 at delta 1e-05" in checked.stdout
    assert "secure noise, up to 3 devices, protocol trusted" in checked.stdout
    board = Board.load(StateFolder.of(settings).first_board)
    assert board.version == 0
    assert board.catalogue.titles is not None
    assert board.catalogue.titles[7] == "Film 7 (1957)"
    assert check(tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        ({"name": "secure-sum"}, "quorum is 2, and protocol 'secure-sum' needs more"),
        ({"name": "secret-sum"}, "protocol must be one of trusted, secure-sum"),
        ({"name": "secure-sum", "settings": {"survivers": 2}}, "survivers"),
        ({"name": "secure-sum", "settings": {"vouched_by": "0" * 63}}, "64 hexadecimal digits"),
        (
            {"name": "secure-sum", "settings": {"vouched_by": "0" * 64}},
            "roster.json: no list of devices can be read",
        ),
    ],
    ids=str,
)
def test_check_refuses_a_protocol_that_such_a_fleet_cannot_run(
    tmp_path: Path, protocol: dict[str, Any], told: str
) -> None:
    on_free_ports(tmp_path, protocol=protocol)

    refused = check(tmp_path)

    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    on_free_ports(tmp_path, protocol={"name": "secure-sum"}, rounds={"quorum": 3})
    assert check(tmp_path).exit_code == 0


def test_check_refuses_what_the_server_could_not_start_with(tmp_path: Path) -> None:
    settings = on_free_ports(tmp_path)
    lock = StateFolder.of(settings).lock
    with socket.create_server(settings.network.listening):
        busy = check(tmp_path)
        with lock.open("wb") as held:  # its own server is running and has the port
            fcntl.flock(held, fcntl.LOCK_EX)
            running = check(tmp_path)
    pem = KeysFolder.of(settings).certificate
    pem.unlink()
    missing = fedboard("server", "--config", tmp_path / "fleet.toml")

    assert (busy.exit_code, running.exit_code, missing.exit_code) == (2, 0, 2)
    assert "network.listen" in busy.stderr
    assert "its ports were not tried" in running.stdout
    assert missing.stderr.startswith(f"fedboard: {pem} cannot be read")


def test_what_expires_soon_is_said_at_the_start_and_in_the_status(tmp_path: Path) -> None:
    settings = on_free_ports(tmp_path)
    roots, key = settings.keys / "roots", settings.keys / "holder.key"
    assert fedboard("keys", "rotate", roots, "--days", "5", "--sign", key).exit_code == 0
    assert RootFolder(roots).chain()[-1].version == 2

    checked = check(tmp_path)
    status = fedboard("fleet", "status", "--config", tmp_path / "fleet.toml", "--json")

    assert checked.exit_code == 0, checked.stderr
    for told in (checked.stdout, "; ".join(json.loads(status.stdout)["problems"])):
        assert f"the root ({roots}) ends in 5.0 days" in told
        assert "its holders sign the next one: fedboard keys rotate" in told


SERVER_INSTALL = """
import sys

SIMULATIONS = {"llvmlite", "numba", "pyarrow", "ray"}


class ServerInstall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in SIMULATIONS or name.startswith("fedboard.simulations"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, ServerInstall())
"""


@pytest.mark.slow
def test_a_server_starts_where_nothing_of_the_simulations_is_installed(tmp_path: Path) -> None:
    on_free_ports(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(SERVER_INSTALL)
    place = {**os.environ, "PYTHONPATH": str(tmp_path)}
    main = [sys.executable, "-c", "from fedboard.cli.main import main; main()"]
    tried = [*main[:2], "import fedboard.simulations"]

    assert subprocess.run(tried, env=place, capture_output=True, check=False).returncode == 1
    command = [*main, "server", "--config", str(tmp_path / "fleet.toml")]
    with subprocess.Popen(
        command, env=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        told = []
        for line in server.stdout:
            told.append(line)
            if "devices and readers come to" in line:
                server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=120) == 0, told
    assert any("devices and readers come to" in line for line in told), told
