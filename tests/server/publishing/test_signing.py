"""The signing key: its owner's alone, never overwritten, and signing nothing in another key's name."""

import msgspec
import pytest

from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protection import Protection
from fedboard.server.publishing.signing import CheckedBoard, SigningKey
from tests.common.boards.boards import another, certified, first_board, keys
from tests.common.boards.test_manifest import A_FILE, a_manifest


def manifest_of(board, key, **changes):
    """What the mirror would sign of a board, and the board as it was checked."""
    checked = CheckedBoard(board=board, simulation=True)
    stated = {
        "version": board.version,
        "releases": len(board.certificate["releases"]),
        "ledger_head": board.certificate["ledger_head"],
        "board_digest": board.digest,
        "previous_digest": board.previous_digest,
        "certificate_digest": board.certificate["digest"],
        "protection": checked.protection,
        "key_id": key.id,
        "file": A_FILE,
    }
    return a_manifest(**(stated | changes)), checked


def test_a_new_key_pair_signs_and_verifies_and_is_readable_by_its_owner_alone(tmp_path):
    private, public = keys(tmp_path / "keys")

    assert (private.name, public.name) == ("board-signing.key", "board-signing.pub")
    assert private.stat().st_mode & 0o777 == 0o600
    key = SigningKey.read(private)
    manifest, checked = manifest_of(certified(first_board()), key)
    assert PinnedKey.read(public).open(key.sign(manifest, checked)) == manifest


def test_a_key_signs_in_its_own_name_only(tmp_path):
    key = SigningKey.read(keys(tmp_path)[0])

    manifest, checked = manifest_of(certified(first_board()), key)
    with pytest.raises(InputError, match="names the key"):
        key.sign(msgspec.structs.replace(manifest, key_id="1" * 16), checked)


@pytest.mark.parametrize(
    "stated",
    [
        {"protection": Protection.PRIVATE},
        {"board_digest": "0" * 64},
        {"version": 9},
        {"certificate_digest": None},
        {"releases": 1},
        {"ledger_head": "0" * 64},
        {"previous_digest": "0" * 64},
    ],
)
def test_a_manifest_that_says_another_thing_of_its_board_is_not_signed(tmp_path, stated):
    key = SigningKey.read(keys(tmp_path)[0])
    board = certified(first_board(), noise=[SeededNoise(1)])
    right, checked = manifest_of(board, key)
    key.sign(right, checked)

    with pytest.raises(PrivacyError, match="does not say what its board is"):
        key.sign(msgspec.structs.replace(right, **stated), checked)


def test_a_manifest_of_one_board_is_not_signed_with_another(tmp_path):
    key = SigningKey.read(keys(tmp_path)[0])
    board = certified(first_board())
    manifest, _ = manifest_of(board, key)

    with pytest.raises(PrivacyError, match="does not say what its board is"):
        key.sign(manifest, CheckedBoard(board=another(board)))
