"""``fedboard keys``, and the server's command as far as it goes without devices."""

import csv
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from fedboard.common.board import Board
from fedboard.server.fleet.processes.work_locks import alone
from tests.cli.fleet.key_drill import Drill
from tests.ports import free_ports

EXAMPLE = Path(__file__).parents[3] / "examples" / "fleet" / "fleet.toml"


def fedboard(*words: object) -> Result:
    return CliRunner().invoke(commands, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys = tmp_path / "keys"
    assert fedboard("keys", "authority", "--out", keys, "--name", "films").exit_code == 0
    assert fedboard("keys", "server", "--out", keys, "--name", "fleet.example.org").exit_code == 0
    assert fedboard("keys", "questions", "--out", keys).exit_code == 0
    assert fedboard("keys", "board", "--out", keys).exit_code == 0
    for name in ("gateway-a", "gateway-b", "ann"):
        assert fedboard("keys", "node", "node", "--out", tmp_path / name).exit_code == 0
    text = EXAMPLE.read_text(encoding="utf-8")
    for port, free in zip((8443, 8444), free_ports(2), strict=True):
        text = text.replace(str(port), str(free))
    (tmp_path / "fleet.toml").write_text(text, encoding="utf-8")
    with (tmp_path / "catalogue.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("item", "title"), *((f"i{n}", f"Film {n}") for n in range(60))])
    return tmp_path


def test_keys_come_with_the_right_modes_and_are_not_overwritten(folder: Path) -> None:
    for private in ("authority.key", "server.key", "question-signing.key", "board-signing.key"):
        assert stat.S_IMODE((folder / "keys" / private).stat().st_mode) == 0o600
    before = (folder / "ann" / "node.key").read_bytes()

    again = fedboard("keys", "node", "node", "--out", folder / "ann")

    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert (folder / "ann" / "node.key").read_bytes() == before


def test_check_makes_board_0_and_says_what_it_promises(folder: Path) -> None:
    checked = fedboard("server", "--config", folder / "fleet.toml", "--check")

    assert checked.exit_code == 0, checked.stderr
    assert "residual over 60 items, epsilon 5 at delta 1e-05" in checked.stdout
    assert "secure noise, 3 nodes admitted" in checked.stdout
    board = Board.load(folder / "state" / "first.board")
    assert board.version == 0
    assert board.catalogue.titles is not None
    assert board.catalogue.titles[7] == "Film 7"
    assert fedboard("server", "--config", folder / "fleet.toml", "--check").exit_code == 0


def test_check_refuses_a_protocol_that_such_a_fleet_cannot_run(folder: Path) -> None:
    config = folder / "fleet.toml"
    text = config.read_text(encoding="utf-8")
    for section, told in (
        ('name = "secure-sum"', "quorum is 2, and protocol 'secure-sum' needs more"),
        ('name = "secret-sum"', "protocol must be one of trusted, secure-sum"),
        ('name = "secure-sum"\nsettings = { survivers = 2 }', "survivers"),
    ):
        config.write_text(text.replace('name = "trusted"', section), encoding="utf-8")
        refused = fedboard("server", "--config", config, "--check")
        assert refused.exit_code == 2
        assert told in refused.stderr

    config.write_text(
        text.replace('name = "trusted"', 'name = "secure-sum"').replace("quorum = 2", "quorum = 3"),
        encoding="utf-8",
    )
    checked = fedboard("server", "--config", config, "--check")
    assert checked.exit_code == 0, checked.stderr
    assert "3 nodes admitted, protocol secure-sum" in checked.stdout


def test_check_refuses_what_the_server_could_not_start_with(folder: Path) -> None:
    config, pem = folder / "fleet.toml", folder / "keys" / "server.pem"
    text = config.read_text(encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy_port = f"\nport = {taken.getsockname()[1]}  # "
        config.write_text(text.replace("\nport = ", busy_port), encoding="utf-8")
        busy = fedboard("server", "--config", config, "--check")
        with alone(folder / "state" / "server.lock"):  # its own server is running and has the port
            running = fedboard("server", "--config", config, "--check")
    pem.unlink()
    missing = fedboard("server", "--config", config)

    assert (busy.exit_code, running.exit_code, missing.exit_code) == (2, 0, 2)
    assert "network.listen and port: cannot listen on 127.0.0.1" in busy.stderr
    assert "its ports were not tried" in running.stdout
    assert missing.stderr.startswith(f"fedboard: network.certificate: {pem} cannot be read")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb"])
def test_a_node_is_not_named_like_a_place(tmp_path: Path, name: str) -> None:
    refused = fedboard("keys", "node", "--out", tmp_path / "keys", "--", name)

    assert refused.exit_code == 2
    assert "NAME must be letters, digits" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_training_is_not_laid_over_the_one_that_is_there(folder: Path) -> None:
    config = folder / "fleet.toml"
    assert fedboard("server", "--config", config, "--check").exit_code == 0
    config.write_text(config.read_text().replace("epsilon = 5.0", "epsilon = 1.0"))

    refused = fedboard("server", "--config", config, "--check")

    assert refused.exit_code == 2
    assert "another state folder" in refused.stderr


def test_a_device_that_names_no_server_has_nobody_to_ask(tmp_path: Path) -> None:
    assert fedboard("ratings", "init", tmp_path, "--epsilon", "3").exit_code == 0

    refused = fedboard("client", "--config", tmp_path / "device.toml")

    assert refused.exit_code == 2
    assert "no [server] is given" in refused.stderr


def test_a_device_that_pins_no_key_is_told_what_it_needs(folder: Path) -> None:
    assert fedboard("ratings", "init", folder / "ann", "--epsilon", "3").exit_code == 0
    config = folder / "ann" / "device.toml"
    server = (
        '[server]\naddress = "127.0.0.1:1"\nca_certificate = "../keys/authority.pem"\nnode_key = "node.key"\n'
    )
    config.write_text(config.read_text().replace("[policy]", f"{server}[policy]"))

    refused = fedboard("client", "--config", config)

    assert refused.exit_code == 2
    assert "names no question_key" in refused.stderr
    assert "fedboard keys questions" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("certificate", ["keys/authority.pem", "catalogue.csv"])
def test_a_client_says_what_it_did_and_what_its_configuration_lacks(folder: Path, certificate: str) -> None:
    assert fedboard("ratings", "init", folder / "ann", "--epsilon", "3").exit_code == 0
    config = folder / "ann" / "device.toml"
    server = (
        f'[server]\naddress = "127.0.0.1:1"\nca_certificate = "../{certificate}"\nnode_key = "node.key"\n'
        'question_key = "../keys/question-signing.pub"\n'
    )
    config.write_text(config.read_text().replace("[policy]", f"{server}[policy]\npublished_only = true"))
    command = [
        sys.executable,
        "-c",
        "from fedboard.cli.main import main; main()",
        "client",
        "--config",
        config,
    ]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        assert client.stderr is not None
        lines = iter(client.stderr.readline, "")
        told = [next(line for line in lines if "published_only" in line)]
        if certificate.endswith(".pem"):
            told.append(next(line for line in lines if "unreachable" in line))
            client.send_signal(signal.SIGINT)
        err = "".join(lines)  # to its end, with what was read ahead
        out, _ = client.communicate(timeout=120)

    assert "[boards] names no source and public_key" in told[0]
    if certificate.endswith(".pem"):
        assert client.returncode == 0
        assert out.startswith(
            "0 questions: 0 answered, 0 refused, 0 failed; 0 replies were not taken by the server; "
        )
    else:
        assert client.returncode == 2
        assert "catalogue.csv: --authority and ca_certificate name" in err


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 0), (2, 6)])
def test_status_tells_rounds_made_and_lost_and_ends_with_the_code_of_a_run_that_lost_too_many(
    folder: Path, lost: int, code: int
) -> None:
    config = folder / "fleet.toml"
    assert fedboard("server", "--config", config, "--check").exit_code == 0
    line = {"epsilon_spent": 4.5, "rounds_planned": 7, "answers": 3, "seconds": 1.0}
    lines = [{**line, "round": n, "lost": n < lost, "releases": ["x"] * (n >= lost)} for n in range(7)]
    log = folder / "state" / "runs" / "films" / "rounds.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))

    told = fedboard("server", "--config", config, "--status")
    record = fedboard("server", "--config", config, "--status", "--json")

    assert told.exit_code == record.exit_code == code
    assert f"films: {7 - lost} of 7 rounds made" in told.stdout
    assert json.loads(record.stdout) == {
        "name": "films",
        "running": False,
        "rounds": {"planned": 7, "made": 7 - lost, "lost": lost},
        "epsilon": {"spent": 4.5, "limit": 5.0, "left": 0.5},
    }
    assert ("most_lost is 0.2" in told.stderr) == (code == 6)


def test_what_expires_soon_is_said_at_the_start_and_in_the_status(folder: Path, drill: Drill) -> None:
    roots, config = folder / "roots", folder / "fleet.toml"
    terms = ("--holder", drill.holder("bob", "pub"), "--board-key", folder / "keys" / "board-signing.pub")
    made = ("keys", "root", roots, *terms, "--threshold", "1", "--sign", drill.holder("bob"), "--days", "5")
    assert fedboard(*made).exit_code == 0
    board = '\n[board]\nenabled = true\nsigning_key = "keys/board-signing.key"\nroots = "roots"\n'
    text = config.read_text(encoding="utf-8") + board
    config.write_text(text, encoding="utf-8")

    check = fedboard("server", "--config", config, "--check")
    status = fedboard("fleet", "status", "--config", config, "--json")

    assert check.exit_code == 0, check.stderr
    assert f"board.roots ({roots}) ends in 5.0 days" in check.stdout
    assert "its holders sign the next one: fedboard keys rotate" in check.stdout
    assert f"board.roots ({roots}) ends in 5.0 days" in status.stdout

    stranger = text.replace("keys/board-signing.key", str(drill.key("first")))
    config.write_text(stranger, encoding="utf-8")
    refused = fedboard("server", "--config", config, "--check")
    assert (refused.exit_code, "does not name the signing key" in refused.stderr) == (2, True)


def test_json_without_status_is_refused(folder: Path) -> None:
    refused = fedboard("server", "--config", folder / "fleet.toml", "--json")

    assert refused.exit_code == 2
    assert "--status" in refused.stderr


SERVER_INSTALL = """
import sys

SIMULATIONS = {"jinja2", "llvmlite", "matplotlib", "numba", "pyarrow", "ray"}


class ServerInstall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in SIMULATIONS or name.startswith("fedboard.simulations"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, ServerInstall())
"""


@pytest.mark.slow
def test_a_server_and_its_processes_start_where_nothing_of_the_simulations_is_installed(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(SERVER_INSTALL)
    place = {**os.environ, "PYTHONPATH": str(folder)}
    main = [sys.executable, "-c", "from fedboard.cli.main import main; main()"]
    tried = [*main[:2], "import fedboard.simulations"]

    assert subprocess.run(tried, env=place, capture_output=True, check=False).returncode == 1
    command = [*main, "server", "--config", str(folder / "fleet.toml")]
    with subprocess.Popen(
        command, env=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        told = []
        for line in server.stdout:
            told.append(line)
            if "proxy started" in line:
                server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=120) == 0, told
    assert any("superlink started" in line for line in told), told
    assert not [line for line in told if "ended" in line and "started again" in line], told
