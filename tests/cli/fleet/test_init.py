"""``fedboard fleet init``: what it makes goes together, and what is there is kept."""

import shutil
import stat
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.client.participation.config import load_device
from fedboard.common.messages.devices import DeviceKey
from fedboard.common.messages.enrolment import Invitation, digest_of_introduction
from fedboard.server.fleet.credentials import introduction_of, require_credentials
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.settings import read_settings
from fedboard.server.fleet.state_folder import StateFolder
from tests.commands import fedboard


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "films.csv"
    path.write_text("item,title\n" + "".join(f"i{n},Film {n}\n" for n in range(60)))
    return path


def init(folder: Path, catalogue: Path, *more: object, devices: int = 3) -> Result:
    return fedboard("fleet", "init", folder, "--data-catalogue", catalogue, "--devices", devices, *more)


def test_it_makes_all_that_a_server_and_its_first_device_need(tmp_path: Path, catalogue: Path) -> None:
    made = init(tmp_path / "films", catalogue)

    assert made.exit_code == 0, made.stderr
    config = tmp_path / "films" / "fleet.toml"
    settings = read_settings(config)
    require_credentials(settings)
    assert (settings.name, settings.rounds.devices, settings.rounds.quorum) == ("films", 3, 2)
    assert settings.catalogue.file == tmp_path / "films" / "catalogue.csv"
    for private in ("authority", "server", "holder", "boards", "questions"):
        assert stat.S_IMODE((settings.keys / f"{private}.key").stat().st_mode) == 0o600

    device = load_device(tmp_path / "films" / "device" / "device.toml")
    assert device.server is not None
    assert device.policy.epsilon == 5.0
    with Register(StateFolder.of(settings).members) as register:
        (member,) = register.admitted()
        assert [one.name for one in register.invitations()] == ["device-2", "device-3"]
    assert member.key == DeviceKey.load(device.server.key).public.hex()
    for number in (2, 3):
        path = tmp_path / "films" / f"device-{number}.invitation"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        invitation = Invitation.parse_text(path.read_text(), source="it")
        assert invitation.introduction == digest_of_introduction(introduction_of(settings))
        assert path.name in made.stdout
    checked = fedboard("server", "--config", config, "--check")
    assert checked.exit_code == 0, checked.stderr


def test_every_setting_that_is_commented_out_stands_at_its_default(tmp_path: Path, catalogue: Path) -> None:
    init(tmp_path / "films", catalogue, "--address", "127.0.0.1:7001")
    config = tmp_path / "films" / "fleet.toml"
    before, text = read_settings(config), config.read_text()
    for line in (
        *("state", "keys", "algorithm", "feedback", "settings", "shares", "delta", "adjacency", "statement"),
        *("quorum", "deadline_seconds", "most_lost", "most", "users", "ops"),
    ):
        assert f"\n# {line} = " in text, line
        text = text.replace(f"\n# {line} = ", f"\n{line} = ")
    text = text.replace('\n# name = "trusted"', '\nname = "trusted"')
    config.write_text(text)

    after = read_settings(config)

    assert (after.promise, after.rounds, after.task) == (before.promise, before.rounds, before.task)
    assert after.capacity == before.capacity
    assert (after.network, after.protocol, after.state) == (before.network, before.protocol, before.state)
    assert (after.keys, after.catalogue) == (before.keys, before.catalogue)


def test_nothing_that_is_there_is_overwritten(tmp_path: Path, catalogue: Path) -> None:
    folder = tmp_path / "films"
    assert init(folder, catalogue).exit_code == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    again = init(folder, catalogue)
    (folder / "fleet.toml").rename(tmp_path / "fleet.toml")
    keys = init(folder, catalogue)

    assert (again.exit_code, "there is a fleet already" in again.stderr) == (2, True)
    assert (keys.exit_code, "no key is ever overwritten" in keys.stderr) == (2, True)
    shutil.move(tmp_path / "fleet.toml", folder / "fleet.toml")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--epsilon", "0"), "privacy.epsilon must be a finite number > 0"),
        (("--name", "a/b"), "--name must be letters"),
        (("--address", "films"), "--address is HOST:PORT"),
    ],
)
def test_a_mistake_leaves_nothing_that_stands_in_the_way(
    tmp_path: Path, catalogue: Path, more: tuple[str, ...], told: str
) -> None:
    refused = init(tmp_path / "films", catalogue, *more)

    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    assert init(tmp_path / "films", catalogue).exit_code == 0


def test_a_limit_that_protects_little_is_the_operator_s_own_to_name(tmp_path: Path, catalogue: Path) -> None:
    assert init(tmp_path / "films", catalogue, "--epsilon", 20, devices=1).exit_code == 0

    assert load_device(tmp_path / "films" / "device" / "device.toml").policy.epsilon == 20.0
    assert not list((tmp_path / "films").glob("*.invitation"))
