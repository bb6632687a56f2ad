"""A mirror: signed once, in order, and complete whenever a reader looks."""

import gzip
import json
from dataclasses import replace
from hashlib import sha256

import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey
from tests.common.boards.boards import (
    RUN,
    another,
    certified,
    chain,
    keys,
    of_version,
    signed_by_hand,
    signed_mirror,
    write_boards,
)


def manifest_of(mirror, key, version):
    return key.public.open(of_version(mirror, version).signed)


def test_the_manifest_says_what_the_board_is(mirror, key):
    boards = chain(3)

    manifest = manifest_of(mirror, key, 4)

    assert (manifest.run, manifest.version, manifest.key_id) == (RUN, 4, key.id)
    assert manifest.board_digest == boards[2].digest
    assert manifest.previous_digest == boards[1].digest
    assert manifest.certificate_digest == boards[2].certificate["digest"]
    assert manifest.protection is Protection.PRIVATE
    assert (manifest.releases, manifest.ledger_head) == (4, None)
    assert manifest.previous_manifest == of_version(mirror, 3).digest
    assert manifest.run_id == boards[0].digest[:32]
    assert (mirror.folder / "latest.json").read_bytes() == of_version(mirror, 4).signed.to_bytes()


def test_its_file_is_the_packed_board_file(mirror, key):
    file, board_file = manifest_of(mirror, key, 4).file, chain(3)[2].to_bytes()

    assert gzip.decompress(mirror.file(file.sha256).read_bytes()) == board_file
    assert (file.board_size, file.board_sha256) == (len(board_file), sha256(board_file).hexdigest())


def test_signing_again_changes_nothing_and_adds_what_is_new(tmp_path, key):
    boards = chain(3)
    mirror = signed_mirror(tmp_path, boards[:2], key=key)
    before = {path: path.read_bytes() for path in mirror.folder.rglob("*.json")}

    assert publish_into(mirror, tmp_path / "boards", key=key, run=RUN) == []
    assert {path: path.read_bytes() for path in mirror.folder.rglob("*.json")} == before
    write_boards(tmp_path / "boards", boards[2:])
    assert publish_into(mirror, tmp_path / "boards", key=key, run=RUN) == [4]
    assert mirror.versions() == [2, 3, 4]


def test_a_crash_before_the_pointer_was_moved_is_made_good(tmp_path, mirror, key):
    (mirror.folder / "latest.json").write_bytes(of_version(mirror, 3).signed.to_bytes())

    publish_into(mirror, tmp_path / "boards", key=key, run=RUN)

    assert (mirror.folder / "latest.json").read_bytes() == of_version(mirror, 4).signed.to_bytes()


def test_a_board_that_does_not_continue_the_published_one_is_not_signed(tmp_path, key):
    boards = chain(2)
    mirror = signed_mirror(tmp_path, boards, key=key)
    write_boards(tmp_path / "boards", [certified(another(boards[1]).successor())])

    with pytest.raises(PrivacyError, match="does not continue"):
        publish_into(mirror, tmp_path / "boards", key=key, run=RUN)

    assert mirror.versions() == [2, 3]


def test_a_mirror_belongs_to_one_run_and_one_key(tmp_path, mirror, key):
    with pytest.raises(InputError, match="of the run"):
        publish_into(mirror, tmp_path / "boards", key=key, run="winter")
    other = SigningKey.read(keys(tmp_path / "other")[0])
    with pytest.raises(InputError, match="another key"):
        publish_into(mirror, tmp_path / "boards", key=other, run=RUN)


SEEDED, SECRET = SeededNoise(0), SecureNoise()


@pytest.mark.slow
@pytest.mark.parametrize("noise", [(SEEDED,), (SECRET, SEEDED), (SECRET, SECRET, SEEDED)])
def test_boards_of_seeded_noise_are_signed_only_if_told_and_then_marked(tmp_path, key, noise):
    """One seeded release among secret ones is enough; nothing of the run is signed, not even what came before."""
    boards = chain(3, noise=noise)

    with pytest.raises(PrivacyError, match="simulation"):
        signed_mirror(tmp_path, boards, key=key)

    refused = Mirror(tmp_path / "mirror")
    assert refused.versions() == []
    assert not any((refused.folder / "files").iterdir())
    marked = signed_mirror(tmp_path, boards, key=key, simulation=True)
    assert manifest_of(marked, key, 4).protection is Protection.SIMULATION


def changed(board, **fields):
    """The board with these fields of its certificate changed, as an editor of files would."""
    return board.with_certificate({**board.certificate, **fields})


@pytest.mark.parametrize(
    ("forge", "error"),
    [
        (lambda board: changed(board, private=True, noise=SECRET.label), "does not hold"),
        (lambda board: changed(board, releases=()), "does not hold"),
        (lambda board: another(board).with_certificate(board.certificate), "of another one"),
        (lambda board: replace(board, certificate=None), "no certificate"),
        (lambda board: replace(board, certificate={"private": True}), "not a certificate"),
    ],
)
def test_a_board_whose_certificate_is_not_its_own_or_does_not_hold_is_never_signed(
    tmp_path, key, forge, error
):
    (board,) = chain(1, noise=(SEEDED,))

    for simulation in (False, True):
        with pytest.raises((InputError, PrivacyError), match=error):
            signed_mirror(tmp_path, [forge(board)], key=key, simulation=simulation)

    assert Mirror(tmp_path / "mirror").versions() == []


def test_a_mirror_of_another_format_is_not_continued(tmp_path, mirror, key):
    manifest = manifest_of(mirror, key, 4)
    mirror.manifest(of_version(mirror, 4).digest).unlink()
    plain = json.loads(manifest.to_bytes()) | {"format": "fedboard-manifest-6"}
    other = signed_by_hand(json.dumps(plain).encode(), key=key, domain=b"fedboard-manifest-6\0")
    mirror.manifest(other.digest).write_bytes(other.to_bytes())

    with pytest.raises(InputError, match="sign the boards into a new folder"):
        publish_into(mirror, tmp_path / "boards", key=key, run=RUN)
