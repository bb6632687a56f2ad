"""Certificate, key, authority and signing keys are checked together, each mistake with a sentence of its own."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from fedboard.common.boards.ed25519_keys import write_pair
from fedboard.common.errors import InputError
from fedboard.server import tls
from fedboard.server.fleet.credentials import require_credentials
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder
from fedboard.server.tls import make_server_certificate
from tests.server.fleet.made import a_fleet
from tests.server.vouched import vouched_pair


@pytest.fixture
def fleet(tmp_path: Path) -> FleetSettings:
    return a_fleet(tmp_path)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """The files of another fleet."""
    folder = tmp_path / "others"
    return vouched_pair(folder)


def refusal(fleet: FleetSettings) -> str:
    with pytest.raises(InputError) as error:
        require_credentials(fleet)
    return str(error.value)


def test_what_was_made_together_goes_together(fleet: FleetSettings) -> None:
    require_credentials(fleet)


@pytest.mark.parametrize("name", ["server.pem", "server.key", "authority.pem", "questions.key", "boards.key"])
def test_a_file_that_is_missing_or_something_else_is_named(fleet: FleetSettings, name: str) -> None:
    place = fleet.keys / name
    place.write_text("nothing of the kind\n")
    assert f"{place}" in refusal(fleet).partition(":")[0]

    place.unlink()
    told = refusal(fleet)
    assert told.startswith(f"{place} cannot be read (No such file or directory)")
    assert "fedboard fleet init" in told


def test_the_key_of_another_certificate_is_refused(fleet: FleetSettings, others: Path) -> None:
    shutil.copy(others / "server.key", fleet.keys / "server.key")

    assert "this private key belongs to another certificate; make a certificate with" in refusal(fleet)


def test_an_authority_that_did_not_sign_the_certificate_is_refused(
    fleet: FleetSettings, others: Path
) -> None:
    shutil.copy(others / "authority.pem", fleet.keys / "authority.pem")

    assert f"authority.pem does not vouch for {fleet.keys / 'server.pem'}" in refusal(fleet)


def test_a_key_behind_a_passphrase_is_refused_without_asking_for_it(fleet: FleetSettings) -> None:
    locked = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    (fleet.keys / "server.key").write_bytes(locked)

    assert "in PEM form, without a passphrase" in refusal(fleet)


def test_a_signing_key_of_another_kind_is_refused(fleet: FleetSettings) -> None:
    shutil.copy(fleet.keys / "server.key", fleet.keys / "boards.key")

    assert "boards.key: boards are signed with Ed25519" in refusal(fleet)


@pytest.mark.parametrize(
    ("name", "told"),
    [("boards", "does not name the signing key"), ("questions", "of the root does not name this key")],
)
def test_a_signing_key_that_the_root_does_not_name_is_refused(
    fleet: FleetSettings, name: str, told: str
) -> None:
    for path in fleet.keys.glob(f"{name}.*"):
        path.unlink()
    write_pair(
        Ed25519PrivateKey.generate(), private=fleet.keys / f"{name}.key", public=fleet.keys / f"{name}.pub"
    )
    assert told in refusal(fleet)

    shutil.rmtree(fleet.keys / "roots")  # then readers have pinned the keys themselves
    require_credentials(fleet)


def test_a_certificate_that_has_expired_is_said_to_be_so(
    fleet: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeysFolder.of(fleet)
    for place in (keys.certificate, keys.key):
        place.unlink()
    monkeypatch.setattr(tls, "_SERVER_DAYS", -1)
    monkeypatch.setattr(tls, "_CLOCKS_APART", timedelta(days=5))
    make_server_certificate(
        keys.certificate, keys.key, authority=keys.authority, authority_key=keys.authority_key, names=()
    )

    assert "this certificate expired on" in refusal(fleet)
