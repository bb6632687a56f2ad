"""What the operator is told of a fleet: read off its files, and off nothing that only a running server knows."""

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest

from fedboard.cli.main import commands
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.server.fleet.members.records import Capacity
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.fleet_status import Standing, fleet_families, status_of
from fedboard.server.fleet.processes.work_locks import alone
from fedboard.server.operating.families import run_families, service_families
from fedboard.server.operating.live.run_files import RunFiles
from fedboard.server.operating.live.run_source import RunSource
from fedboard.server.publishing.counters import ServiceCounters
from fedboard.server.publishing.mirror import publish_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.common.boards.boards import RUN, chain, keys, write_boards
from tests.server.fleet.deployed import Fleet
from tests.server.fleet.opened import a_fleet, an_invitation

SECRET = b"s" * 32
LAPLACE = {
    "mechanism": "laplace",
    "name": "preparation",
    "covers": "mean rating",
    "adjacency": "add-remove",
    "noise_multiplier": 30.0,
    "l1_sensitivity": 0.5,
    "noise_scale": 15.0,
}
DAY = 86_400.0


@pytest.fixture
def fleet(tmp_path: Path) -> FleetSettings:
    return a_fleet(tmp_path)


def heard(fleet: FleetSettings, versions: dict[str, str], *, seconds_ago: float = 1.0) -> None:
    """As the door writes it."""
    now = time.time()
    state = StateFolder.of(fleet)
    devices = {key: {"last": now - seconds_ago, "version": version} for key, version in versions.items()}
    state.door.write_text(json.dumps({"written": now, "devices": devices}))


def problems(fleet: FleetSettings, **how: Any) -> str:
    return "; ".join(status_of(fleet, **how).problems())


def test_who_is_online_and_of_which_version(fleet: FleetSettings) -> None:
    keys = list(fleet.public_keys)
    state = StateFolder.of(fleet)
    with alone(state.lock):
        assert status_of(fleet).devices.online is None, "the door has not said anything yet"
        heard(fleet, {keys[0]: "0.1.0", keys[1]: "0.1.0", keys[2]: "", "A STRANGER'S": "9"})
        status = status_of(fleet)
        assert (status.devices.admitted, status.devices.online, status.has_quorum) == (4, 3, True)
        assert status.devices.versions == {"": 1, "0.1.0": 2}
        assert status.problems() == []
        heard(fleet, {keys[0]: "0.1.0"}, seconds_ago=1)
        assert "1 devices are online and the quorum is 3: no round begins" in problems(fleet)
        heard(fleet, dict.fromkeys(keys, "0.1.0"), seconds_ago=60)
        assert status_of(fleet).devices.online == 0
    status = status_of(fleet)
    assert (status.running, status.devices.online, status.has_quorum) == (False, None, None)
    assert problems(fleet) == "no server is running on this state folder"


def test_what_ends_soon_is_told_before_it_ends(fleet: FleetSettings) -> None:
    ends = {one.what: one.at for one in status_of(fleet).expiries}
    assert set(ends) == {"network.certificate", "network.authority"}
    certificate = ends["network.certificate"]

    assert "network.certificate" not in problems(fleet, clock=lambda: certificate - 31 * DAY)
    assert "ends in 10.0 days" in problems(fleet, clock=lambda: certificate - 10 * DAY)
    assert "ended 2.0 days ago" in problems(fleet, clock=lambda: certificate + 2 * DAY)


def test_a_list_of_devices_that_ends_soon_is_told_before_no_device_takes_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, vouched=True).settings
    ends = {one.what: one.at for one in status_of(fleet).expiries}
    at = ends["protocol.roster"]

    assert "protocol.roster" not in problems(fleet, clock=lambda: at - 31 * DAY)
    assert "fedboard keys roster" in problems(fleet, clock=lambda: at - 10 * DAY)
    assert "ended 2.0 days ago" in problems(fleet, clock=lambda: at + 2 * DAY)
    path = fleet.protocol.roster
    assert path is not None
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":2'))
    assert "protocol.roster" not in {one.what for one in status_of(fleet).expiries}, "nobody signed that"


def test_a_fleet_with_too_few_members_and_an_invitation_that_others_have_seen(fleet: FleetSettings) -> None:
    state = StateFolder.of(fleet)
    with Register(state.members) as register:
        register.keep_to({})
        register.invite(SECRET, name="ann", max_users=1, seconds=60)
        register.join(SECRET, "KEY", capacity=Capacity(devices=1, users=1))
        with pytest.raises(Exception, match="used-invitation"):
            register.join(SECRET, "OTHER", capacity=Capacity(devices=1, users=1))

    told = problems(fleet)
    assert "1 devices are members and the quorum is 3" in told
    assert "the invitation of ann was presented by another key too" in told


def test_the_command_tells_it_in_words_and_as_a_document(fleet: FleetSettings) -> None:
    config = fleet.network.authority.parent / "fleet.toml"
    an_invitation(fleet, "ann")
    log = StateFolder.of(fleet).run / "rounds.jsonl"
    line = {
        "round": 0,
        "seconds": 1.0,
        "epsilon_spent": 2.0,
        "rounds_planned": 10,
        "releases": ["a"],
        "lost": False,
    }
    log.write_text(json.dumps(line) + "\n")

    def fedboard(*words: str) -> Any:
        return CliRunner().invoke(commands, ["fleet", "status", "--config", str(config), *words])

    told = json.loads(fedboard("--json").stdout)
    assert told["rounds"] == {"planned": 10, "made": 1, "lost": 0}
    assert told["epsilon"] == {"spent": 2.0, "limit": 5.0, "left": 3.0}
    assert (told["devices"]["admitted"], told["devices"]["open_invitations"]) == (4, 1)
    assert told["quorum"] == {"needed": 3, "expected": 4, "met": None}
    assert {one["what"] for one in told["expires"]} == {"network.certificate", "network.authority"}
    words = fedboard()
    assert words.exit_code == 0
    assert re.search(r"devices +unknown online of 4 members \(0 by invitation\)", words.stdout)
    assert "LOOK: no server is running" in words.stdout
    lost = {**line, "round": 1, "lost": True, "releases": [], "rounds_planned": 2}
    log.write_text(json.dumps(line) + "\n" + json.dumps(lost) + "\n")
    assert fedboard().exit_code == 6


def test_what_is_spent_is_what_the_ledger_holds_also_where_no_round_is_in_the_log(
    fleet: FleetSettings,
) -> None:
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(StateFolder.of(fleet).run / "ledger.sqlite", budget) as ledger:
        ledger.book(LAPLACE)
        spent = ledger.spent().epsilon
        assert spent > 0
        assert status_of(fleet).fares.spent == spent, "while another process writes"


def test_the_live_page_tells_it_to_the_operator_alone(fleet: FleetSettings) -> None:
    files = RunFiles(folder=StateFolder.of(fleet).run)
    mine, everybodys = (
        RunSource(files=files, for_operator=own, fleet=Standing(fleet)) for own in (True, False)
    )
    before = mine.signature()

    told = mine.read()["fleet"]
    assert (told["admitted"], told["quorum"], told["open_invitations"]) == (4, 3, 0)
    assert everybodys.read()["fleet"] is None
    an_invitation(fleet, "ann")
    assert mine.signature() != before
    assert mine.read()["fleet"]["open_invitations"] == 1


def exposition(fleet: FleetSettings) -> str:
    """As it is served, of a run with a round, and of a service with a request."""
    state, service = StateFolder.of(fleet), ServiceCounters()
    service.finished("Get", "ok", 0.003)
    (state.run / "rounds.jsonl").write_text('{"round": 0, "seconds": 1.5, "refused": {"late": 1}}\n')
    (state.counts / "supervisor.json").write_text('{"starts": {"proxy": 1}, "training_failures": 0}')
    counted = {
        "responses": {"200": 1},
        "joins": {"joined": 1},
        "connections": {"open": 1, "refused": 0, "closed": 0},
    }
    (state.counts / "proxy.json").write_text(json.dumps(counted))
    heard(fleet, {next(iter(fleet.public_keys)): "0.1.0"})

    class All:
        def collect(self) -> Any:
            yield from run_families(state.run)
            yield from service_families(service)
            yield from fleet_families(fleet)

    registry = CollectorRegistry()
    registry.register(All())  # type: ignore[arg-type]
    with alone(state.lock):
        return generate_latest(registry).decode()


def test_nothing_of_a_device_is_in_the_metrics(fleet: FleetSettings) -> None:
    text = exposition(fleet)

    assert "fedboard_devices_online 1.0" in text
    assert not any(line in text for key in fleet.public_keys for line in key.splitlines())
    assert not any(f'"{node.name}"' in text for node in msgspec.structs.replace(fleet).nodes)


def test_boards_that_wait_for_witnesses_are_a_problem_and_a_metric(
    fleet: FleetSettings, tmp_path: Path
) -> None:
    """Whoever is missing is named; without witnesses nothing waits."""
    mirror = Mirror(StateFolder.of(fleet).mirror)
    assert "fedboard_boards_waiting 0.0" in exposition(fleet)
    key, boards = SigningKey.read(keys(tmp_path / "signing")[0]), write_boards(tmp_path / "boards", chain(1))
    witnesses = Witnesses((b"w" * 32, b"v" * 32, b"u" * 32), 2)

    publish_into(mirror, boards, key=key, run=RUN, witnesses=witnesses)

    (waiting,) = [one for one in status_of(fleet).problems() if "not shown yet" in one]
    assert "version 2 of the board, signed, cosigned by 0 of 2" in waiting
    assert (b"w" * 32).hex()[:16] in waiting
    assert "fedboard_boards_waiting 1.0" in exposition(fleet)
