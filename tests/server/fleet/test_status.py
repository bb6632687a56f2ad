"""What the operator is told of a fleet: read off its files, and off nothing that only a running server knows."""

import fcntl
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest

from fedboard.cli.fleet import members
from fedboard.cli.main import commands
from fedboard.common.boards.roster import IdentityKey, RosterAuthority
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.server.fleet import status as status_module
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.mailbox import Mailbox, Message
from fedboard.server.fleet.register import Capacity, Register
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder
from fedboard.server.fleet.status import fleet_families, status_of
from tests.server.fleet.made import a_fleet

NODES = ("a", "b", "c", "d")
KEYS = {name: str(number) * 64 for number, name in enumerate(NODES)}
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
    """Of four members."""
    settings = a_fleet(tmp_path, rounds={"devices": 4, "quorum": 3})
    prepare(settings)
    for name in NODES:
        join(settings, name)
    return settings


def join(settings: FleetSettings, name: str) -> None:
    with Register(StateFolder.of(settings).members) as register:
        secret = name.encode() * 32
        register.invite(secret, name=name, max_users=1, seconds=60)
        register.join(secret, KEYS[name], capacity=Capacity(devices=4, users=4))


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """As a server holds it."""
    with lock.open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def heard(fleet: FleetSettings, versions: dict[str, str], *, seconds_ago: float = 1.0) -> None:
    """As the server writes it."""
    now = time.time()
    devices = {
        key: {"last": now - seconds_ago, "version": version, "may_be_silent_seconds": 30.0}
        for key, version in versions.items()
    }
    StateFolder.of(fleet).door.write_text(json.dumps({"written": now, "devices": devices}))


def problems(fleet: FleetSettings, **how: Any) -> str:
    return "; ".join(status_of(fleet, **how).problems())


def fedboard(fleet: FleetSettings, *words: str) -> Any:
    config = fleet.keys.parent / "fleet.toml"
    return CliRunner().invoke(commands, ["fleet", "status", "--config", str(config), *words])


def test_who_is_online_and_of_which_version(fleet: FleetSettings) -> None:
    a, b, c, _ = KEYS.values()
    with alone(StateFolder.of(fleet).lock):
        assert status_of(fleet).devices.online is None, "the server has not said anything yet"
        heard(fleet, {a: "0.1.0", b: "0.1.0", c: "", "A STRANGER'S": "9"})
        status = status_of(fleet)
        assert (status.devices.admitted, status.devices.online, status.has_quorum) == (4, 3, True)
        assert status.devices.versions == {"": 1, "0.1.0": 2}
        assert status.problems() == []
        heard(fleet, {a: "0.1.0"})
        assert "1 of 4 devices are online and the quorum is 3: no round begins" in problems(fleet)
        heard(fleet, dict.fromkeys(KEYS.values(), "0.1.0"), seconds_ago=60)
        assert status_of(fleet).devices.online == 0
    status = status_of(fleet)
    assert (status.running, status.devices.online, status.has_quorum) == (False, None, None)
    assert problems(fleet) == "no server is running on this state folder"


def test_for_whom_a_round_waits_and_how_long(fleet: FleetSettings) -> None:
    state, mailbox = StateFolder.of(fleet), Mailbox()

    def told() -> Any:
        mailbox.seen.write(state.door, under_way=mailbox.under_way())
        with alone(state.lock):
            return status_of(fleet)

    assert told().under_way is None
    mailbox.ask(dict.fromkeys(KEYS.values(), Message("round", b"?")), largest=10, seconds=60.0)
    work = mailbox.work_of(KEYS["b"])
    assert work is not None
    mailbox.put(KEYS["b"], work.name, b"!")

    found = told()
    assert (found.under_way.asked, found.under_way.answered) == (4, 1)
    assert found.under_way.waiting_for == ("a", "c", "d")
    assert found.under_way.until - found.now == pytest.approx(60.0, abs=5.0)
    assert dict(found.rows())["waiting for"] == "a, c, d"
    assert found.devices.online == 0, "they are busy with their answers"
    assert "no round begins" not in "; ".join(found.problems())
    mailbox.end()
    assert (told().under_way.asked, told().under_way.waiting_for) == (0, ())
    mailbox.end_round()
    assert told().under_way is None


def test_what_ends_soon_is_told_before_it_ends(fleet: FleetSettings) -> None:
    ends = {one.what: one.at for one in status_of(fleet).expiries}
    assert set(ends) == {"the server's certificate", "the authority", "the root"}
    certificate = ends["the server's certificate"]

    assert "certificate" not in problems(fleet, clock=lambda: certificate - 31 * DAY)
    assert "ends in 10.0 days" in problems(fleet, clock=lambda: certificate - 10 * DAY)
    assert "ended 2.0 days ago" in problems(fleet, clock=lambda: certificate + 2 * DAY)


def test_a_list_of_devices_that_ends_soon_is_told_before_no_device_takes_it(tmp_path: Path) -> None:
    authority = RosterAuthority()
    settings = {"vouched_by": authority.public.hex()}
    fleet = a_fleet(tmp_path, protocol={"name": "secure-sum", "settings": settings})
    path = KeysFolder.of(fleet).roster
    path.write_bytes(
        authority.sign([IdentityKey().public], fleet="trial", number=1, seconds=90 * DAY).content
    )
    at = {one.what: one.at for one in status_of(fleet).expiries}["the list of devices"]

    assert "list of devices" not in problems(fleet, clock=lambda: at - 31 * DAY)
    assert "fedboard keys sign" in problems(fleet, clock=lambda: at - 10 * DAY)
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":2'))
    assert "the list of devices" not in {one.what for one in status_of(fleet).expiries}, "nobody signed that"


def test_too_few_members_and_an_invitation_that_others_have_seen(tmp_path: Path) -> None:
    fleet = a_fleet(tmp_path)
    prepare(fleet)
    join(fleet, "a")
    with (
        Register(StateFolder.of(fleet).members) as register,
        pytest.raises(Exception, match="used-invitation"),
    ):
        register.join(b"a" * 32, KEYS["b"], capacity=Capacity(devices=1, users=1))

    told = problems(fleet)
    assert "1 devices are members and the quorum is 2" in told
    assert "the invitation of a was presented by another key too" in told


def test_a_disk_that_is_nearly_full_is_told(fleet: FleetSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MiB are free" not in problems(fleet)
    monkeypatch.setattr(status_module, "_LEAST_FREE", 1 << 62)
    assert "MiB are free on the disk of the state folder" in problems(fleet)


def test_the_command_tells_it_in_words_and_as_a_document(fleet: FleetSettings) -> None:
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

    told = json.loads(fedboard(fleet, "--json").stdout)
    assert told["rounds"] == {"planned": 10, "made": 1, "lost": 0}
    assert told["epsilon"] == {"spent": 2.0, "limit": 5.0, "left": 3.0}
    assert (told["devices"]["admitted"], told["devices"]["open_invitations"]) == (4, 0)
    assert told["quorum"] == {"needed": 3, "expected": 4, "met": None}
    words = fedboard(fleet)
    assert words.exit_code == 0
    assert re.search(r"devices +unknown online of 4 members", words.stdout)
    assert "LOOK: no server is running" in words.stdout
    lost = {**line, "round": 1, "lost": True, "releases": [], "rounds_planned": 2}
    log.write_text(json.dumps(line) + "\n" + json.dumps(lost) + "\n")
    assert fedboard(fleet).exit_code == 6


def test_it_is_watched_until_it_is_told_to_stop(
    fleet: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = iter([True, True, False])
    monkeypatch.setattr(members, "stays", lambda told, _: not told() and next(goes_on))

    assert fedboard(fleet, "--watch").stdout.count("LOOK: no server is running") == 3
    assert fedboard(fleet, "--watch", "--json").exit_code == 2


def test_what_is_spent_is_what_the_ledger_holds_also_where_no_round_is_in_the_log(
    fleet: FleetSettings,
) -> None:
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(StateFolder.of(fleet).run / "ledger.sqlite", budget) as ledger:
        ledger.book(LAPLACE)
        spent = ledger.spent().epsilon
        assert spent > 0
        assert status_of(fleet).fares.spent == spent, "while another process writes"


def exposition(fleet: FleetSettings) -> str:
    """As it is served."""
    heard(fleet, {KEYS["a"]: "0.1.0"})

    class All:
        def collect(self) -> Any:
            yield from fleet_families(fleet)

    registry = CollectorRegistry()
    registry.register(All())  # type: ignore[arg-type]
    with alone(StateFolder.of(fleet).lock):
        return generate_latest(registry).decode()


def test_nothing_of_a_device_is_in_the_metrics(fleet: FleetSettings) -> None:
    text = exposition(fleet)

    assert "fedboard_devices_online 1.0" in text
    assert not any(key in text for key in KEYS.values())
    assert not any(f'"{name}"' in text for name in NODES)
