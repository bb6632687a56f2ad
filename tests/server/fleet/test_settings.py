"""``fleet.toml``: what is read, what is derived, and what is refused with which words."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.common.errors import InputError
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.run_spec import Promise
from tests.server.fleet.made import a_fleet, write_fleet

A, B, C = ("0" * 64, "1" * 64, "2" * 64)


def keys_of(kind: type, place: str = "") -> list[str]:
    """All keys of the file, as ``section.key``."""
    found = []
    for field in msgspec.structs.fields(kind):
        inner = [
            one
            for one in (field.type, *getattr(field.type, "__args__", ()))
            if hasattr(one, "__struct_fields__")
        ]
        name = f"{place}{field.name}"
        found += keys_of(inner[0], f"{name}.") if inner else [name]
    return found


def test_a_fleet_has_at_most_thirty_settings_and_needs_four_of_them(tmp_path: Path) -> None:
    assert len(keys_of(FleetSettings)) <= 30

    least = 'name = "f"\nprivacy.epsilon = 1.0\ncatalogue.file = "c.csv"\nrounds.devices = 3\n'
    (tmp_path / "fleet.toml").write_text(least)
    settings = read_settings(tmp_path / "fleet.toml")

    assert (settings.state, settings.keys) == (tmp_path / "state", tmp_path / "keys")
    assert settings.catalogue.file == tmp_path / "c.csv"
    assert settings.rounds.quorum == 2
    assert (settings.capacity.devices, settings.capacity.users, settings.capacity.each) == (3, 3, 1)
    assert settings.network.listening.text == "127.0.0.1:8443"
    assert settings.promise == Promise(epsilon=1.0)
    assert not settings.alone
    assert not settings.simulated


def test_a_fleet_needs_four_settings(tmp_path: Path) -> None:
    least = 'name = "f"\nprivacy.epsilon = 1.0\ncatalogue.file = "c.csv"\nrounds.devices = 3\n'
    (tmp_path / "fleet.toml").write_text(least)
    settings = read_settings(tmp_path / "fleet.toml")

    assert (settings.state, settings.keys) == (tmp_path / "state", tmp_path / "keys")
    assert settings.catalogue.file == tmp_path / "c.csv"
    assert settings.rounds.quorum == 2
    assert (settings.capacity.devices, settings.capacity.users, settings.capacity.each) == (3, 3, 1)
    assert settings.network.listening.text == "127.0.0.1:8443"
    assert settings.promise == Promise(epsilon=1.0)
    assert not settings.alone
    assert not settings.simulated


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"privacy": {"epsilon": 0.0}}, "privacy.epsilon must be a finite number > 0"),
        ({"privacy": {"delta": 1.0}}, "privacy.delta must be in (0, 1)"),
        ({"privacy": {"adjacency": "replace-labels"}}, "privacy.adjacency must be add-remove or replace"),
        ({"privacy": {"seed": -1}}, "seed must be a whole number >= 0"),
        ({"rounds": {"quorum": 0}}, "rounds.quorum must be in [1, rounds.devices] = [1, 3]"),
        ({"rounds": {"deadline_seconds": 1e7}}, "rounds.deadline_seconds must be in [0.01, 250000]"),
        ({"members": {"users": 1 << 25}}, "members.users must be in [members.most, 16777216]"),
        ({"boards": {"witnesses": [A, A]}}, "boards: witnesses must be 1 to"),
        ({"boards": {"witnesses": [A], "cosignatures": 2}}, "boards: cosignatures must be in [1, 1]"),
        ({"name": "../films"}, "name must be letters"),
        ({"nodes": []}, "unknown key 'nodes'; known are"),
        ({"privacy": {"noise": "seeded"}}, "privacy: unknown key 'noise'"),
        ({"privacy": {"epsilon": "much"}}, "privacy.epsilon must be"),
        ({"privacy": {"epsilon": None}}, "privacy.epsilon is missing"),
        ({"task": {"rating_range": [5.0, 1.0]}}, "task.rating_range must be LOW < HIGH"),
        ({"rounds": {"devices": 0}}, "rounds.devices must be >= 1"),
        ({"rounds": {"quorum": 4}}, "rounds.quorum must be in [1, rounds.devices] = [1, 3]"),
        ({"rounds": {"deadline_seconds": 0.0}}, "rounds.deadline_seconds must be in [0.01, 250000]"),
        ({"rounds": {"most_lost": 1.1}}, "rounds.most_lost must be in [0, 1]"),
        ({"protocol": {"name": "two-server"}}, "protocol.helper is needed for two-server"),
        ({"protocol": {"helper": "h.example:1"}}, "protocol.helper is needed for two-server"),
        ({"protocol": {"name": "two-server", "helper": "h"}}, "protocol.helper is HOST:PORT"),
        ({"network": {"address": "films"}}, "network.address is HOST:PORT"),
        ({"network": {"listen": "0.0.0.0:99999"}}, "port of network.listen must be in [1, 65535]"),
        ({"network": {"ops": "127.0.0.1:8443"}}, "network.ops must have another port than network.listen"),
        ({"members": {"most": 2}}, "members.most must be >= rounds.devices = 3"),
        ({"members": {"users": 2}}, "members.users must be in [members.most, 16777216]"),
        ({"boards": {"witnesses": ["A" * 64]}}, "boards.witnesses must be public keys of 64 hex digits"),
        ({"boards": {"cosignatures": 1}}, "cosignatures must be 0 or left out where no witnesses"),
        ({"boards": {"witnesses": [A, B], "cosignatures": 1}}, "boards: cosignatures must be in [2, 2]"),
        ({"queries": {"epsilon": 0.0}}, "queries.epsilon must be a finite number > 0"),
        ({"queries": {"epsilon": 5.0}}, "queries.epsilon is of the training too: it must be larger"),
    ],
    ids=str,
)
def test_a_mistake_is_told_with_its_file_and_its_key(
    tmp_path: Path, sections: dict[str, Any], told: str
) -> None:
    path = write_fleet(tmp_path, **sections)

    with pytest.raises(InputError, match=re.escape(told)) as error:
        read_settings(path)
    assert str(error.value).startswith(f"{path}: ")


def test_what_is_not_toml_or_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("[privacy")
    with pytest.raises(InputError, match="not valid TOML"):
        read_settings(tmp_path / "fleet.toml")
    with pytest.raises(InputError, match="no configuration can be read there"):
        read_settings(tmp_path / "absent.toml")


def test_the_example_is_read() -> None:
    settings = read_settings(Path(__file__).parents[3] / "examples" / "fleet" / "fleet.toml")

    assert settings.name == "films"


def test_all_times_of_a_round_follow_from_its_deadline(tmp_path: Path) -> None:
    pace = a_fleet(tmp_path, rounds={"deadline_seconds": 0.4, "quorum": None}).rounds.pace

    assert (pace.expected_nodes, pace.quorum, pace.attempts) == (3, 2, 3)
    assert (pace.grace_seconds, pace.longest_seconds) == pytest.approx((0.02, 1.6))


def test_a_seed_means_noise_that_can_be_repeated(tmp_path: Path) -> None:
    trial, real = a_fleet(tmp_path), a_fleet(tmp_path, privacy={"seed": None})

    assert (trial.simulated, trial.promise.noise, trial.promise.seed) == (True, "seeded", 0)
    assert (real.simulated, real.promise.noise) == (False, "secure")


def test_without_a_budget_of_its_own_there_is_no_training(tmp_path: Path) -> None:
    queries = a_fleet(tmp_path, privacy={"epsilon": None}, queries={"epsilon": 2.0})

    assert queries.alone
    assert queries.promise.epsilon == 2.0


def test_gateways_host_what_is_left_when_everybody_else_is_one_person(tmp_path: Path) -> None:
    settings = a_fleet(tmp_path, members={"most": 5, "users": 100})

    assert (settings.capacity.devices, settings.capacity.users, settings.capacity.each) == (5, 100, 96)


@pytest.mark.parametrize(
    ("address", "listen", "expected"),
    [
        ("127.0.0.1:7000", None, "127.0.0.1:7000"),
        ("films.example.org:7000", None, "0.0.0.0:7000"),
        ("films.example.org:443", "10.0.0.1:7000", "10.0.0.1:7000"),
    ],
)
def test_the_server_listens_where_devices_come(
    tmp_path: Path, address: str, listen: str | None, expected: str
) -> None:
    network = a_fleet(tmp_path, network={"address": address, "listen": listen}).network

    assert network.listening.text == expected


def test_more_than_half_of_the_witnesses_are_needed_where_no_number_is_given(tmp_path: Path) -> None:
    usual = a_fleet(tmp_path, boards={"witnesses": [A, B, C]}).boards.cosigners
    asked = a_fleet(tmp_path, boards={"witnesses": [A, B, C], "cosignatures": 3}).boards.cosigners

    assert usual is not None
    assert (len(usual.keys), usual.threshold) == (3, 2)
    assert asked is not None
    assert asked.threshold == 3
    assert a_fleet(tmp_path).boards.cosigners is None
