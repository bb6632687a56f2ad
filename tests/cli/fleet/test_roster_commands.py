"""``fedboard keys identity``, ``roster-authority`` and ``roster``: who is a real device, and who says so."""

from pathlib import Path

import pytest

from fedboard.common.keys.roster import Roster, public_key
from fedboard.server.fleet.plan.settings import read_settings
from tests.cli.fleet.test_fleet_commands import fedboard
from tests.server.fleet.deployed import Fleet


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    assert fedboard("keys", "roster-authority", "--out", tmp_path / "authority").exit_code == 0
    for name in ("ann", "bob"):
        assert fedboard("keys", "identity", "--out", tmp_path / name).exit_code == 0
    return tmp_path


def signed(keys: Path, *names: str) -> str:
    devices = [keys / name / "identity.pub" for name in names]
    key = keys / "authority" / "roster-authority.key"
    made = fedboard(
        "keys", "roster", *devices, "--fleet", "films", "--authority", key, "--list", keys / "roster"
    )
    assert made.exit_code == 0, made.stderr
    return made.stdout


def test_a_list_names_the_devices_and_its_next_version_has_the_next_number(keys: Path) -> None:
    authority = public_key(keys / "authority" / "roster-authority.pub")
    told = signed(keys, "ann", "bob")
    first = Roster.load(keys / "roster", authority=authority)
    assert authority.hex() in told
    assert "list 1 of films, 2 devices, for 90 days" in told
    assert set(first.keys) == {public_key(keys / name / "identity.pub") for name in ("ann", "bob")}

    signed(keys, "bob")

    second = Roster.load(keys / "roster", authority=authority)
    assert (first.number, second.number) == (1, 2)
    assert second.keys == (public_key(keys / "bob" / "identity.pub"),)


def test_a_list_of_another_authority_is_not_replaced(keys: Path) -> None:
    signed(keys, "ann")
    other = keys / "other"
    fedboard("keys", "roster-authority", "--out", other)

    refused = fedboard(
        *("keys", "roster", keys / "ann" / "identity.pub", "--fleet", "films", "--list", keys / "roster"),
        *("--authority", other / "roster-authority.key"),
    )

    assert refused.exit_code != 0
    assert "not signed by the authority" in refused.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace(', roster = "roster"', ""), "protocol.roster is needed where"),
        (lambda text: text.replace('vouched_by = "', 'vouched_by = "0'), "64 hexadecimal digits"),
    ],
    ids=["no list", "no key"],
)
def test_a_server_says_what_its_configuration_lacks(tmp_path: Path, change: object, sentence: str) -> None:
    Fleet(tmp_path, vouched=True)
    config = tmp_path / "fleet.toml"
    config.write_text(change(config.read_text()))  # type: ignore[operator]

    refused = fedboard("server", "--config", config, "--check")

    assert refused.exit_code != 0
    assert sentence in refused.stderr


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda place: place.unlink(), "no list of devices can be read there"),
        (lambda place: place.write_bytes(place.read_bytes()[:-1] + b" "), "not signed by the authority"),
    ],
    ids=["none", "changed"],
)
def test_a_server_says_what_its_list_lacks(tmp_path: Path, spoil: object, sentence: str) -> None:
    fleet = Fleet(tmp_path, vouched=True)
    assert read_settings(tmp_path / "fleet.toml").protocol.roster == fleet.folder / "roster"
    spoil(fleet.folder / "roster")  # type: ignore[operator]

    refused = fedboard("server", "--config", tmp_path / "fleet.toml", "--check")

    assert refused.exit_code != 0
    assert sentence in refused.stderr
