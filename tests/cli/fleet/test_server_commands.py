"""The commands that serve until they are told to stop: what ends them, and what they refuse to begin with."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.fleet.server import stays, told_to_stop
from fedboard.cli.main import commands
from tests.ports import free_ports
from tests.server.vouched import vouched_pair


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_either_signal_is_a_word_to_ask_for_and_interrupts_nothing(number: signal.Signals) -> None:
    told = told_to_stop()
    assert not told()
    assert stays(told, 0.0)

    signal.raise_signal(number)

    assert told()
    assert not stays(told, 3600.0)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return vouched_pair(tmp_path, pair="helper")


def refused(keys: Path, address: str = "127.0.0.1:0", **changed: str) -> str:
    """The sentence, and that it is the input's fault."""
    given = {"certificate": "helper.pem", "private-key": "helper.key", "identity": "id.key", "state": "state"}
    flags = [f"--{name}={keys / value}" for name, value in (given | changed).items()]
    done = CliRunner().invoke(commands, ["helper", f"--address={address}", *flags])
    assert done.exit_code == 2
    return done.stderr


def test_what_cannot_be_used_is_named_in_one_sentence(keys: Path) -> None:
    (keys / "loose").write_text("ab" * 32)
    (keys / "loose").chmod(0o644)
    (keys / "file").write_text("")

    assert "cannot both be read" in refused(keys, certificate="nowhere")
    assert "another certificate" in refused(keys, **{"private-key": "authority.key"})
    assert "others can read this token" in refused(keys, token="loose")
    assert "no folder can be made" in refused(keys, state="file/state")
    assert "cannot listen" in refused(keys, "192.0.2.1:0")
    assert "no private key" in refused(keys, identity="file")


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
