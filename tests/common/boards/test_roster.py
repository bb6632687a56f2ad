"""Lists of devices: what their authority signed is read, and nothing else is."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.boards.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.errors import InputError

AUTHORITY = RosterAuthority(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
DEVICES = [IdentityKey(Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in range(5)]


def a_roster(devices: list[IdentityKey] = DEVICES, number: int = 3) -> Roster:
    keys = [device.public for device in devices]
    return AUTHORITY.sign(keys, fleet="films", number=number, seconds=100, clock=lambda: 1000.0)


def test_what_was_signed_is_read_and_every_device_has_one_place() -> None:
    found = Roster.read(a_roster().content, authority=AUTHORITY.public)

    assert (found.fleet, found.number, found.until) == ("films", 3, 1100)
    assert sorted(device.public for device in DEVICES) == list(found.keys)
    assert sorted(found.place(device.public) or 0 for device in DEVICES) == [0, 1, 2, 3, 4]
    assert found.place(IdentityKey().public) is None
    assert found.digest == a_roster().digest != a_roster(number=4).digest


def test_any_changed_byte_is_noticed() -> None:
    content = a_roster().content
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        with pytest.raises(InputError):
            Roster.read(bytes(changed), authority=AUTHORITY.public)
    for cut in (content[:-1], content[1:], content + b" ", b"", content[:100]):
        with pytest.raises(InputError):
            Roster.read(cut, authority=AUTHORITY.public)


def test_another_authority_vouches_for_nothing() -> None:
    with pytest.raises(InputError, match="not signed by the authority"):
        Roster.read(a_roster().content, authority=RosterAuthority().public)


def signed(line: bytes) -> bytes:
    return (
        b"fedboard-roster-1 "
        + AUTHORITY._key.sign(b"fedboard roster 1\0" + line).hex().encode()
        + b"\n"
        + line
    )


@pytest.mark.parametrize(
    "change",
    [
        {"devices": [DEVICES[0].public.hex()] * 2},
        {"devices": sorted((d.public.hex() for d in DEVICES), reverse=True)},
        {"devices": ["00" * 31]},
        {"number": 0},
        {"number": 1.5},
        {"fleet": ""},
        {"more": 1},
    ],
    ids=str,
)
def test_a_list_that_is_signed_and_not_sound_is_refused_all_the_same(change: dict[str, object]) -> None:
    usual = {"fleet": "films", "number": 1, "until": 5, "devices": [DEVICES[0].public.hex()]}
    Roster.read(signed(json.dumps(usual).encode()), authority=AUTHORITY.public)

    with pytest.raises(InputError):
        Roster.read(signed(json.dumps({**usual, **change}).encode()), authority=AUTHORITY.public)


def test_a_device_is_listed_once_and_by_a_whole_key() -> None:
    for devices in ([b"short"], [DEVICES[0].public] * 2):
        with pytest.raises(InputError, match="each named once"):
            AUTHORITY.sign(devices, fleet="films", number=1, seconds=1)
    for bad in ({"number": 0}, {"seconds": 0}, {"fleet": ""}):
        usual: dict[str, object] = {"fleet": "films", "number": 1, "seconds": 1}
        with pytest.raises(InputError, match="number >= 1"):
            AUTHORITY.sign([], **{**usual, **bad})  # type: ignore[arg-type]


def test_a_signature_is_of_one_key_and_one_statement() -> None:
    signature = DEVICES[0].sign(b"one")

    assert has_signed(DEVICES[0].public, signature, b"one")
    assert not has_signed(DEVICES[0].public, signature, b"other")
    assert not has_signed(DEVICES[1].public, signature, b"one")
    assert not has_signed(b"short", signature, b"one")
