"""Keys in files: who may read them, that none is lost, and that what was signed is nothing else."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedboard.common.boards.ed25519_keys import has_signed, public_pem, read_public, write_new
from fedboard.common.errors import InputError
from fedboard.common.messages.devices import DeviceKey


def test_the_private_half_is_for_its_owner_alone_and_belongs_to_the_public_one(tmp_path: Path) -> None:
    private, public = DeviceKey().write(tmp_path / "ann")

    assert (private.name, public.name) == ("device.key", "device.pub")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    key = DeviceKey.load(private)
    assert read_public(public, signed="calls").public_bytes_raw() == key.public
    assert public.read_bytes() == public_pem(key.public)
    assert has_signed(key.public, key.sign(b"this"), b"this")
    assert not has_signed(key.public, key.sign(b"this"), b"that")


def test_no_key_is_overwritten(tmp_path: Path) -> None:
    private, _ = DeviceKey().write(tmp_path)
    before = private.read_bytes()

    with pytest.raises(InputError, match="is there already"):
        DeviceKey().write(tmp_path)

    assert private.read_bytes() == before


def test_nothing_is_left_where_the_second_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "device.pub").write_text("mine")

    with pytest.raises(InputError, match="is there already"):
        DeviceKey().write(tmp_path)

    assert not (tmp_path / "device.key").exists()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    private, _ = DeviceKey().write(tmp_path)
    private.chmod(0o640)

    with pytest.raises(InputError, match="chmod 600"):
        DeviceKey.load(private)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    write_new(secret={tmp_path / "text": b"hello"})
    other = ec.generate_private_key(ec.SECP384R1())
    write_new(
        secret={tmp_path / "other": other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())}
    )

    for name, told in (
        ("text", "no private key"),
        ("absent", "no private key"),
        ("other", "another kind of key"),
    ):
        with pytest.raises(InputError, match=told):
            DeviceKey.load(tmp_path / name)
