"""Units that systemd takes, a container whose commands there are, a reverse proxy no wider than the door."""

import configparser
import re
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec import structs

from fedboard.cli.main import commands
from fedboard.common.wire.direct import ANSWER_PATH, WORK_PATH
from fedboard.common.wire.enrolment import INTRODUCTION_PATH, JOIN_PATH
from fedboard.server.fleet.door.proxy import FORWARDED
from fedboard.server.fleet.kit.kit import Host, beside, server_units
from fedboard.server.fleet.plan.settings import FleetSettings
from tests.ports import free_ports
from tests.server.fleet.opened import MORE, a_fleet, an_invitation, door_of

UNITS = (
    "fedboard-server.service",
    "fedboard-backup.service",
    "fedboard-backup.timer",
    "fedboard-client.service",
)


def fedboard(*words: object) -> Result:
    return CliRunner().invoke(commands, [str(word) for word in words])


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> FleetSettings:
    return a_fleet(tmp_path_factory.mktemp("fleet"), f"{MORE}\njoins_per_address = 1000")


@pytest.fixture(scope="module")
def config(fleet: FleetSettings) -> Path:
    return fleet.network.authority.parent / "fleet.toml"


@pytest.fixture(scope="module")
def units(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units")
    words = ("fleet", "install-units", "--to", folder, "--user", "fedboard", "--config", config)
    assert fedboard(*words).exit_code == 0
    assert fedboard(*words, "--device", config.parent / "a" / "device.toml").exit_code == 0
    return folder


@pytest.fixture(scope="module")
def kit(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    assert fedboard("fleet", "kit", "--config", config, "--to", folder).exit_code == 0
    return folder


def read(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def test_units_start_what_there_is_with_no_more_rights_than_they_need(
    units: Path, config: Path, fleet: FleetSettings
) -> None:
    assert sorted(path.name for path in units.iterdir()) == sorted(UNITS)
    server, client = (
        read(units / name)["Service"] for name in ("fedboard-server.service", "fedboard-client.service")
    )
    for service in (server, client, read(units / "fedboard-backup.service")["Service"]):
        program, *words = service["ExecStart"].split()
        assert Path(program).name == "fedboard"
        command: Any = commands
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert {word for word in words if word.startswith("--")} <= {
            o for p in command.params for o in p.opts
        }
        assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")
        assert service["CapabilityBoundingSet"] == ""
        assert "{{" not in service["ReadWritePaths"]
    assert server["ReadWritePaths"] == str(fleet.state)
    assert server["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert server["Restart"] == client["Restart"] == "always"
    assert read(units / "fedboard-backup.timer")["Timer"]["OnCalendar"] == "hourly"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_them_and_finds_them_confined(units: Path) -> None:
    places = [str(units / name) for name in UNITS]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *places], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("fedboard-server.service", "fedboard-client.service"):
        words = [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--threshold=30",
            "--no-pager",
            str(units / name),
        ]
        judged = subprocess.run(words, capture_output=True, text=True, check=False)
        if "unrecognized option" in judged.stderr:
            pytest.skip("needs a later systemd-analyze")
        assert judged.returncode == 0, judged.stdout[-300:]


def test_a_file_that_was_changed_is_not_written_over(kit: Path, config: Path) -> None:
    changed = kit / "compose.yaml"
    before = changed.read_text()
    assert fedboard("fleet", "kit", "--config", config, "--to", kit).exit_code == 0, (
        "the same again is nothing new"
    )
    changed.write_text("services: {}\n")
    try:
        refused = fedboard("fleet", "kit", "--config", config, "--to", kit)
        assert refused.exit_code == 2
        assert "another file is there" in refused.stderr
        assert changed.read_text() == "services: {}\n"
        assert fedboard("fleet", "kit", "--config", config, "--to", kit, "--force").exit_code == 0
        assert changed.read_text() == before
    finally:
        changed.write_text(before)


def test_units_of_paths_that_systemd_would_split_are_refused(config: Path, tmp_path: Path) -> None:
    place = tmp_path / "a fleet"
    shutil.copytree(config.parent, place)

    refused = fedboard("fleet", "install-units", "--config", place / "fleet.toml", "--to", tmp_path / "units")

    assert refused.exit_code == 2
    assert "units take plain paths alone" in refused.stderr
    assert not (tmp_path / "units").exists()


def test_what_the_server_writes_to_and_how_many_an_address_may_be_are_those_of_the_settings(
    fleet: FleetSettings, config: Path, tmp_path: Path
) -> None:
    """Behind a proxy the door counts no addresses, and nginx does."""
    settings = structs.replace(fleet, network=structs.replace(fleet.network, connections_per_address=0))
    host = Host(user="fedboard", backups=tmp_path, program=Path("/usr/bin/fedboard"))

    unit = server_units(settings, config, host)["fedboard-server.service"]
    assert f"ReadWritePaths={fleet.state}\n" in unit
    assert "limit_conn fedboard_connections 256;" in beside(settings, config)["nginx.conf"]


def test_the_container_runs_commands_that_there_are(kit: Path, fleet: FleetSettings, config: Path) -> None:
    lines = re.sub(r"\\\n", " ", (kit / "Containerfile").read_text()).splitlines()
    words = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    kinds = [word for word, _ in words]
    assert kinds[0] == "FROM"
    assert set(kinds) <= {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert kinds.index("USER") < kinds.index("ENTRYPOINT"), "nothing runs as root"
    said = dict(words)
    entry, default = (yaml.safe_load(said[word]) for word in ("ENTRYPOINT", "CMD"))
    assert entry == ["fedboard"]

    service = yaml.safe_load((kit / "compose.yaml").read_text())["services"]["server"]
    assert service["command"] == default
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["ports"] == [f"{port}:{port}" for port in (fleet.network.port, fleet.board.port)]
    assert [volume["target"] for volume in service["volumes"]] == ["/etc/fedboard", "/var/lib/fedboard"]
    assert service["volumes"][0]["source"] == str(config.parent)
    _, program, *asked = service["healthcheck"]["test"]
    here = [str(config) if word == "/etc/fedboard/fleet.toml" else word for word in asked]
    assert program == "fedboard"
    assert fedboard(*here).exit_code == 0
    checked = [str(config) if word == "/etc/fedboard/fleet.toml" else word for word in default]
    assert fedboard(*checked, "--check").exit_code == 0


def places_of(text: str) -> dict[str, str]:
    """Location to the method that it lets through."""
    found = re.findall(r"location (~|=|) ?(\S+) \{\s*limit_except (\w+) \{ deny all; \}", text)
    return {place: method for _, place, method in found}


def test_the_reverse_proxy_lets_through_what_the_door_does_and_nothing_else(kit: Path) -> None:
    places = places_of((kit / "nginx.conf").read_text())

    patterns, named = [place for place in places if place.startswith("^")], set[str]()
    for pattern in patterns:
        matches = re.fullmatch(r"\^(/v1/\w+/)\((.*)\)\$", pattern)
        assert matches is not None, "anchored at both ends"
        assert places[pattern] == "POST"
        named |= {matches[1] + name for name in matches[2].split("|")}
    assert named == {*(path.decode() for path in FORWARDED), WORK_PATH, ANSWER_PATH}
    assert {place: method for place, method in places.items() if place not in patterns} == {
        INTRODUCTION_PATH: "GET",
        JOIN_PATH: "POST",
    }
    assert "location / { return 404; }" in (kit / "nginx.conf").read_text()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_a_device_joins_through_nginx(kit: Path, fleet: FleetSettings, config: Path, tmp_path: Path) -> None:
    (public,) = free_ports(1)
    text = (
        (kit / "nginx.conf")
        .read_text()
        .replace(f"listen {fleet.network.port} ssl", f"listen 127.0.0.1:{public} ssl")
    )
    temporary = " ".join(
        f"{name}_temp_path {tmp_path}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr warn; events {{}} http {{ access_log off; "
        f"{temporary} {text} }}"
    )
    nginx = [shutil.which("nginx") or "", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)]
    trusted = ssl.create_default_context(cafile=str(fleet.network.authority))
    invitation = an_invitation(fleet, "ann")
    through = invitation.url.replace(str(fleet.network.port), str(public))
    with door_of(fleet):
        process = subprocess.Popen(nginx)
        try:
            with httpx.Client(
                verify=trusted, trust_env=False, base_url=f"https://127.0.0.1:{public}"
            ) as client:
                deadline = time.monotonic() + 60
                while True:
                    try:
                        status = client.get("/").status_code
                        break
                    except httpx.TransportError:
                        assert process.poll() is None
                        assert time.monotonic() < deadline
                        time.sleep(0.05)
                assert status == 404
                assert client.get("/v1/control/start-run").status_code == 404
                assert client.post("/v1/fleet/register-node").status_code == 404
                assert client.post("/v1/fleet/pull-messages").status_code == 401
                assert client.post(WORK_PATH).status_code == client.post(ANSWER_PATH).status_code == 401
                assert client.get(WORK_PATH).status_code == 403
                assert client.get("/v1/fleet/pull-messages").status_code == 403
                assert client.get("/v1/fleet/../control/start-run").status_code == 404
            joined = fedboard("client", "join", through, invitation.token, "--out", tmp_path / "ann")
            assert joined.exit_code == 0, joined.stderr
        finally:
            process.terminate()
            process.wait(60)
