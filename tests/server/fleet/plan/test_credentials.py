"""Certificate, key, authority and signing key are checked together, each mistake with a sentence of its own."""

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind
from fedboard.common.errors import InputError
from fedboard.server import tls
from fedboard.server.fleet.plan.credentials import require_credentials
from fedboard.server.tls import make_server_certificate
from tests.server.publishing.log.network import network
from tests.server.fleet.deployed import Fleet
from tests.server.vouched import vouched_pair


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """The files of another fleet."""
    folder = tmp_path / "others"
    return vouched_pair(folder)


def refusal(fleet: Fleet) -> str:
    with pytest.raises(InputError) as error:
        require_credentials(fleet.settings)
    return str(error.value)


def test_what_was_made_together_goes_together(fleet: Fleet) -> None:
    require_credentials(fleet.settings)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("server.pem", "network.certificate"),
        ("server.key", "network.key"),
        ("authority.pem", "network.authority"),
        ("question-signing.key", "network.question_key"),
        ("board-signing.key", "board.signing_key"),
    ],
)
def test_a_file_that_is_missing_or_something_else_is_named_with_its_key(
    fleet: Fleet, name: str, key: str
) -> None:
    place = fleet.folder / name
    place.write_text("nothing of the kind\n")
    assert refusal(fleet).startswith(f"{key}: {place}")

    place.unlink()
    told = refusal(fleet)
    assert told.startswith(f"{key}: {place} cannot be read (No such file or directory)")
    assert "fedboard keys" in told


def test_the_key_of_another_certificate_is_refused(fleet: Fleet, others: Path) -> None:
    shutil.copy(others / "server.key", fleet.folder / "server.key")

    assert f"server.key is not the key of {fleet.folder / 'server.pem'}" in refusal(fleet)


def test_an_authority_that_did_not_sign_the_certificate_is_refused(fleet: Fleet, others: Path) -> None:
    shutil.copy(others / "authority.pem", fleet.folder / "authority.pem")

    told = refusal(fleet)

    assert told.startswith("network.authority: ")
    assert "does not vouch for" in told


def test_a_key_behind_a_passphrase_is_refused_without_asking_for_it(fleet: Fleet) -> None:
    locked = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    (fleet.folder / "server.key").write_bytes(locked)

    assert "no private key without a passphrase" in refusal(fleet)


def test_a_signing_key_of_another_kind_is_refused(fleet: Fleet) -> None:
    shutil.copy(fleet.folder / "server.key", fleet.folder / "board-signing.key")

    told = refusal(fleet)

    assert told.startswith("board.signing_key: ")
    assert "boards are signed with Ed25519" in told


def logged(fleet: Fleet, **fields: Path) -> None:
    """The fleet with these keys in its ``[board]``."""
    board = msgspec.structs.replace(fleet.settings.board, **fields)
    fleet.settings = msgspec.structs.replace(fleet.settings, board=board)


def test_a_log_and_the_policy_of_its_witnesses_go_together(fleet: Fleet, tmp_path: Path) -> None:
    place = tmp_path / "board-log"
    logged(fleet, log=place)
    assert refusal(fleet).startswith(
        f"board.log: {place / 'board-log.key'}: no private key can be read there"
    )

    NoteKey.generate("boards.example/films", Kind.NOTE).write(
        place / "board-log.key", place / "board-log.pub"
    )
    require_credentials(fleet.settings)
    with network(tmp_path / "net", honest=1) as other:
        logged(fleet, witnesses=other.policy_file(least=1))
        assert refusal(fleet).startswith(
            f"board.witnesses: the policy {fleet.settings.board.witnesses} is not for"
        )
        logged(fleet, log=other.origin)
        require_credentials(fleet.settings)


READ_ONLY = """mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c '
import sys
from pathlib import Path
from fedboard.server.fleet.plan.credentials import _require_log
from fedboard.server.fleet.plan.sections import BoardSection
_require_log(BoardSection(log=Path(sys.argv[1])))
' "$1\""""


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs a mount of its own: unshare -rm is not allowed here",
)
def test_a_log_that_cannot_be_written_to_is_told_before_anything_starts(tmp_path: Path) -> None:
    """As beside fleet.toml in a container, where all of that is read-only."""
    place = tmp_path / "board-log"
    NoteKey.generate("boards.example/films", Kind.NOTE).write(
        place / "board-log.key", place / "board-log.pub"
    )
    command = ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", str(place), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert f"InputError: board.log: {place} cannot be written to (Read-only file system)" in done.stderr


def test_a_certificate_that_has_expired_is_said_to_be_so(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = fleet.settings.network
    for place in (network.certificate, network.key):
        place.unlink()
    monkeypatch.setattr(tls, "_SERVER_DAYS", -1)
    monkeypatch.setattr(tls, "_CLOCKS_APART", timedelta(days=5))
    make_server_certificate(
        network.certificate,
        network.key,
        authority=network.authority,
        authority_key=network.authority.with_suffix(".key"),
        names=(),
    )

    assert "this certificate expired on" in refusal(fleet)
