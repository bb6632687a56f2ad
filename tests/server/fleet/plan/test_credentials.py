"""Certificate, key, authority and signing key are checked together, each mistake with a sentence of its own."""

import re
import shutil
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

from fedboard.common.errors import InputError
from fedboard.server import tls
from fedboard.server.fleet.plan.credentials import require_credentials
from fedboard.server.tls import make_server_certificate
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


@pytest.mark.parametrize(
    ("witnesses", "cosignatures", "told"),
    [
        (("ab" * 32, "cd" * 32), 1, r"cosignatures must be in \[2, 2\] for 2 witnesses, got 1"),
        (("ab" * 32, "ab" * 32), 2, "different keys"),
        (("absent",), None, "no public key can be read there"),
        ((), 2, "no witnesses are named"),
    ],
)
def test_witnesses_that_say_nothing_are_refused(
    fleet: Fleet, witnesses: tuple[str, ...], cosignatures: int | None, told: str
) -> None:
    board = msgspec.structs.replace(fleet.settings.board, witnesses=witnesses, cosignatures=cosignatures)
    fleet.settings = msgspec.structs.replace(fleet.settings, board=board)

    assert re.search(f"board.witnesses: .*{told}", refusal(fleet))


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
