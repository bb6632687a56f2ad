"""``fedboard fleet invite``, ``members`` and ``remove``: who may join, who has, and who is out."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from fedboard.common.messages.enrolment import Invitation, digest_of_introduction
from fedboard.server.fleet.credentials import introduction_of
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.register import Capacity, Register
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import StateFolder
from tests.server.fleet.made import a_fleet


@pytest.fixture
def fleet(tmp_path: Path) -> FleetSettings:
    settings = a_fleet(tmp_path, members={"users": 7})
    prepare(settings)
    return settings


def fedboard(fleet: FleetSettings, command: str, *words: object) -> Result:
    config = fleet.keys.parent / "fleet.toml"
    return CliRunner().invoke(commands, ["fleet", command, *map(str, words), "--config", str(config)])


def test_an_invitation_is_for_this_server_and_one_device(fleet: FleetSettings, tmp_path: Path) -> None:
    told = json.loads(fedboard(fleet, "invite", "ann", "--users", 5, "--json").stdout)
    out = tmp_path / "bob.invite"
    assert fedboard(fleet, "invite", "bob", "--out", out).exit_code == 0

    first = Invitation.parse(told["url"], told["token"])
    second = Invitation.parse_text(out.read_text(), source="it")
    assert first.introduction == second.introduction == digest_of_introduction(introduction_of(fleet))
    assert first.secret != second.secret
    assert (told["name"], told["users"]) == ("ann", 5)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    listed = json.loads(fedboard(fleet, "members", "--json").stdout)
    assert {one["name"]: one["users"] for one in listed["invitations"]} == {"ann": 5, "bob": 1}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a/b",), "NAME must be letters"),
        (("ann", "--users", 6), "--users must be at most 5, got 6"),
        (("ann", "--hours", 0), "--hours"),
        (("taken",), "is called 'taken'; choose another name"),
    ],
)
def test_a_mistake_opens_no_invitation(
    fleet: FleetSettings, tmp_path: Path, words: tuple[object, ...], told: str
) -> None:
    assert fedboard(fleet, "invite", "taken").exit_code == 0

    refused = fedboard(fleet, "invite", *words, "--out", tmp_path / "file")

    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    assert not (tmp_path / "file").exists()
    assert len(json.loads(fedboard(fleet, "members", "--json").stdout)["invitations"]) == 1


def test_a_device_that_is_removed_is_out_and_an_invitation_withdrawn(fleet: FleetSettings) -> None:
    with Register(StateFolder.of(fleet).members) as register:
        register.invite(b"s" * 32, name="ann", max_users=1, seconds=60)
        register.join(b"s" * 32, "0" * 64, capacity=Capacity(devices=1, users=1))
    fedboard(fleet, "invite", "bob")

    assert fedboard(fleet, "remove", "ann").stdout == "ann is removed\n"
    assert fedboard(fleet, "remove", "bob").stdout == "the invitation of bob is withdrawn\n"
    listed = json.loads(fedboard(fleet, "members", "--json").stdout)
    assert [one["admitted"] for one in listed["members"]] == [False]
    assert listed["invitations"] == []
    assert "removed 20" in fedboard(fleet, "members").stdout
