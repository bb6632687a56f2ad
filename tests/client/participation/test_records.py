"""What a device remembers: the newest list of devices, and what its owner reads of it."""

from pathlib import Path

import pytest

from fedboard.client.participation.config import load_device
from fedboard.client.participation.records import NewestRoster
from fedboard.client.participation.status import REASONS
from fedboard.common.boards.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError

AUTHORITY = RosterAuthority()


def a_roster(number: int, *, fleet: str = "films", devices: int = 2) -> Roster:
    keys = [IdentityKey().public for _ in range(devices)]
    return AUTHORITY.sign(keys, fleet=fleet, number=number, seconds=60)


def refused(seen: NewestRoster, roster: Roster) -> bool:
    with pytest.raises(RefusedError) as error:
        seen.admit(roster)
    return error.value.code is Refusal.OTHER_ROSTER


def test_an_older_list_and_another_one_of_the_same_number_are_refused_also_after_a_restart(
    tmp_path: Path,
) -> None:
    place = tmp_path / "rosters.json"
    second, third = a_roster(2), a_roster(3)
    NewestRoster(place).admit(second)
    NewestRoster(place).admit(second)
    NewestRoster(place).admit(third)

    restarted = NewestRoster(place)

    assert refused(restarted, second)
    assert refused(restarted, a_roster(3))
    restarted.admit(third)
    restarted.admit(a_roster(1, fleet="books"))  # another fleet counts by itself
    assert place.stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_said_and_not_begun_anew(tmp_path: Path) -> None:
    place = tmp_path / "rosters.json"
    place.write_text("{")

    with pytest.raises(InputError, match="damaged"):
        NewestRoster(place)


def test_a_device_is_told_of_the_identity_that_its_policy_needs(tmp_path: Path) -> None:
    private, _ = IdentityKey().write(tmp_path)
    text = """
ratings = { store = "ratings.sqlite" }
policy = { epsilon = 1.0, delta = 1e-5, vouched_by = "%s" }
server = { address = "127.0.0.1:9", authority = "ca.pem", key = "device.key"%s }
"""
    config = tmp_path / "device.toml"
    config.write_text(text % (AUTHORITY.public.hex(), ""))
    with pytest.raises(InputError, match="fedboard keys new identity"):
        load_device(config).voucher()

    config.write_text(text % (AUTHORITY.public.hex(), f', identity_key = "{private.name}"'))
    voucher = load_device(config).voucher()
    assert voucher is not None
    assert voucher.authority == AUTHORITY.public
    config.write_text(text % ("nobody", ""))
    with pytest.raises(InputError, match="vouched_by must be 64 hexadecimal digits"):
        load_device(config)


def test_every_code_has_its_words() -> None:
    assert set(REASONS) == set(Refusal)
