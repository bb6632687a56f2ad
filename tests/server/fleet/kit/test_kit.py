"""A unit that systemd takes and confines, and a container whose commands there are."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedboard.cli.main import commands
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.settings import FleetSettings
from tests.commands import fedboard
from tests.server.fleet.made import a_fleet

SERVER = "fedboard-server.service"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> FleetSettings:
    settings = a_fleet(tmp_path_factory.mktemp("fleet"))
    prepare(settings)
    return settings


@pytest.fixture(scope="module")
def config(fleet: FleetSettings) -> Path:
    return fleet.keys.parent / "fleet.toml"


@pytest.fixture(scope="module")
def kit(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    made = fedboard("fleet", "kit", "--config", config, "--to", folder, "--user", "fedboard")
    assert made.exit_code == 0, made.stderr
    return folder


def service_of(path: Path) -> list[tuple[str, str]]:
    """The lines of its section, in order; keys may stand there twice."""
    section = path.read_text(encoding="utf-8").partition("[Service]\n")[2].partition("\n[")[0]
    lines = [line for line in section.splitlines() if line and not line.startswith("#")]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def test_the_unit_starts_what_there_is_with_no_more_rights_than_it_needs(
    kit: Path, fleet: FleetSettings
) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.read_string((kit / SERVER).read_text(encoding="utf-8"))
    assert parser.sections() == ["Unit", "Service", "Install"]
    lines = service_of(kit / SERVER)
    service = dict(lines)
    program, *words = service["ExecStart"].split()
    assert Path(program).name == "fedboard"
    command: Any = commands
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert service["ReadWritePaths"] == str(fleet.state)
    for key in ("NoNewPrivileges", "MemoryDenyWriteExecute", "PrivateDevices", "RestrictNamespaces"):
        assert service[key] == "yes"
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert (service["Restart"], service["MemoryMax"]) == ("always", "4G")
    assert ("SystemCallFilter", "@system-service") in lines
    assert ("SystemCallFilter", "~@privileged") in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_it_and_finds_it_confined(kit: Path) -> None:
    verify = ["systemd-analyze", "verify", "--man=no", str(kit / SERVER)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    judge = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager"]
    judged = subprocess.run([*judge, str(kit / SERVER)], capture_output=True, text=True, check=False)
    if "unrecognized option" in judged.stderr:
        pytest.skip("needs a later systemd-analyze")
    assert judged.returncode == 0, judged.stdout[-300:]


NOTHING_WRITTEN_IS_EXECUTED = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, as MemoryDenyWriteExecute
    sys.exit(77)
import grpc.aio
from fedboard.cli.main import main
sys.argv = ["fedboard", "fleet", "status", "--config", sys.argv[1]]
main()
"""


@pytest.mark.slow
def test_the_server_s_packages_need_no_memory_that_is_written_and_executed(config: Path) -> None:
    words = [sys.executable, "-c", NOTHING_WRITTEN_IS_EXECUTED, str(config)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("needs a kernel with PR_SET_MDWE")
    assert done.returncode == 0, done.stderr
    assert "not running" in done.stdout


def test_a_file_that_is_there_is_not_written_over(kit: Path, config: Path) -> None:
    changed = kit / "compose.yaml"
    before = changed.read_text()

    refused = fedboard("fleet", "kit", "--config", config, "--to", kit, "--user", "fedboard")

    assert (refused.exit_code, "it is there already" in refused.stderr) == (2, True)
    assert changed.read_text() == before


def test_units_of_paths_that_systemd_would_split_are_refused(config: Path, tmp_path: Path) -> None:
    place = tmp_path / "a fleet"
    shutil.copytree(config.parent, place)

    refused = fedboard("fleet", "kit", "--config", place / "fleet.toml", "--to", tmp_path / "kit")

    assert refused.exit_code == 2
    assert "units take plain paths alone" in refused.stderr
    assert not (tmp_path / "kit").exists()


def test_the_container_runs_commands_that_there_are(kit: Path, fleet: FleetSettings, config: Path) -> None:
    service = yaml.safe_load((kit / "compose.yaml").read_text())["services"]["server"]
    lines = service["build"]["dockerfile_inline"].splitlines()

    assert [line.split()[0] for line in lines] == ["FROM", "COPY", "RUN"]
    assert service["user"].split(":")[0].isdigit()
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    mounted = {volume["target"]: volume.get("read_only", False) for volume in service["volumes"]}
    assert mounted == {str(config.parent): True, str(fleet.state): False}
    for program, *words in (service["command"], service["healthcheck"]["test"][1:]):
        assert program == "fedboard"
        more = ["--check"] if words[0] == "server" else []
        done = fedboard(*words, *more)
        assert done.exit_code == 0, done.stderr


def test_the_firewall_counts_connections_to_the_devices_port(kit: Path, fleet: FleetSettings) -> None:
    text = (kit / "connections.nft").read_text()

    assert text.count(f"tcp dport {fleet.network.listening.port} ct state new") == 2
    assert text.count("{") == text.count("}")
    assert "{{" not in text
