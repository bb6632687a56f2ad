"""``fedboard server --boards``: a mirror without a fleet."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from tests.ports import free_ports


def test_a_mirror_is_served_until_it_is_told_to_end(tmp_path: Path) -> None:
    (mirror := tmp_path / "mirror").mkdir()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [Path(sys.executable).parent / "fedboard", "server", "--boards", mirror, "--address", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert "without TLS" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(30) in (0, 130)


@pytest.mark.parametrize(
    "options",
    [
        ["--boards", ".", "--check"],
        ["--address", "127.0.0.1:0"],
        ["--boards", ".", "--certificate", "server.pem"],
        ["--boards", "nowhere"],
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert CliRunner().invoke(commands, ["server", *options]).exit_code == 2
