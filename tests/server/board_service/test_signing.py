"""The signing key: its owner's alone, never overwritten, and signing nothing in another key's name."""

import msgspec
import pytest

from fedboard.common.board_service.manifest import PinnedKey
from fedboard.common.errors import InputError
from fedboard.server.board_service.signing import PRIVATE_NAME, PUBLIC_NAME, SigningKey, create_board_keys
from tests.common.board_service.test_manifest import a_manifest


def test_a_new_key_pair_signs_and_verifies_and_is_readable_by_its_owner_alone(tmp_path):
    private, public = create_board_keys(tmp_path / "keys")

    assert (private.name, public.name) == (PRIVATE_NAME, PUBLIC_NAME)
    assert private.stat().st_mode & 0o777 == 0o600
    key = SigningKey.read(private)
    manifest = a_manifest(key_id=key.id)
    assert PinnedKey.read(public).open(key.sign(manifest)) == manifest


def test_a_key_is_never_overwritten(tmp_path):
    private, _ = create_board_keys(tmp_path)
    before = private.read_bytes()

    with pytest.raises(InputError, match="there already"):
        create_board_keys(tmp_path)

    assert private.read_bytes() == before


def test_a_key_that_others_can_read_is_not_used(tmp_path):
    private, _ = create_board_keys(tmp_path)
    private.chmod(0o640)

    with pytest.raises(InputError, match="chmod 600"):
        SigningKey.read(private)


def test_what_is_no_signing_key_is_refused(tmp_path):
    _, public = create_board_keys(tmp_path)

    for path in (public, tmp_path / "missing"):
        with pytest.raises(InputError, match="no private key"):
            SigningKey.read(path)


def test_a_key_signs_in_its_own_name_only(tmp_path):
    key = SigningKey.read(create_board_keys(tmp_path)[0])

    with pytest.raises(InputError, match="names the key"):
        key.sign(msgspec.structs.replace(a_manifest(), key_id="1" * 16))
