"""``fedboard keys``: pairs for parties elsewhere, lists of devices, witnesses in roots, certificates anew."""

import stat
from pathlib import Path

import pytest
from click.testing import Result
from cryptography import x509

from fedboard.common.boards.ed25519_keys import read_private, read_public
from fedboard.common.boards.roots import WITNESSES, RootFolder
from fedboard.common.boards.roster import Roster, public_key
from fedboard.server.fleet.credentials import require_credentials
from fedboard.server.fleet.state_folder import KeysFolder
from fedboard.server.tls import names_of
from tests.commands import done, fedboard
from tests.server.fleet.made import a_fleet

KINDS = ("holder", "witness", "identity", "roster-authority", "boards", "questions")


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_for_its_owner_alone_and_never_overwritten(tmp_path: Path, kind: str) -> None:
    told = done("keys", "new", kind, "--out", tmp_path)
    private, public = tmp_path / f"{kind}.key", tmp_path / f"{kind}.pub"
    own = read_private(private, signed="anything").public_key().public_bytes_raw()
    assert read_public(public, signed="anything").public_bytes_raw() == own
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert (own.hex() in told) == (kind in ("witness", "roster-authority"))
    before = private.read_bytes()

    again = fedboard("keys", "new", kind, "--out", tmp_path)

    assert (again.exit_code, "is there already" in again.stderr) == (2, True)
    assert private.read_bytes() == before


def test_an_authority_elsewhere_signs_the_server_s_certificate(tmp_path: Path) -> None:
    done("keys", "new", "authority", "--name", "films", "--out", tmp_path)
    told = done("keys", "renew", tmp_path, "--name", "films.example.org", "--name", "10.0.0.7")

    assert "for films.example.org, localhost, 10.0.0.7, 127.0.0.1" in told
    assert stat.S_IMODE((tmp_path / "server.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb"])
def test_a_key_is_not_named_like_a_place(tmp_path: Path, name: str) -> None:
    refused = fedboard("keys", "new", "holder", "--out", tmp_path / "keys", "--name", name)

    assert (refused.exit_code, "--name must be letters, digits" in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_is_renewed_for_the_same_key_and_the_same_names_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    keys = KeysFolder.of(a_fleet(tmp_path))
    first, key = x509.load_pem_x509_certificate(keys.certificate.read_bytes()), keys.key.read_bytes()

    done("keys", "renew", keys.path)
    second = x509.load_pem_x509_certificate(keys.certificate.read_bytes())
    assert (second.public_key(), second.serial_number == first.serial_number) == (first.public_key(), False)
    assert names_of(keys.certificate) == ["localhost", "127.0.0.1"]
    done("keys", "renew", keys.path, "--name", "films.example.org")
    assert names_of(keys.certificate) == ["films.example.org", "localhost", "127.0.0.1"]
    assert keys.key.read_bytes() == key

    keys.key.rename(tmp_path / "stolen.key")
    done("keys", "renew", keys.path)
    assert keys.key.read_bytes() != key
    assert "films.example.org" in names_of(keys.certificate)
    require_credentials(a_fleet(tmp_path))

    keys.authority_key.rename(tmp_path / "authority.key")
    before = keys.certificate.read_bytes()
    refused = fedboard("keys", "renew", keys.path)
    assert (refused.exit_code, "authority.key: the authority cannot be read" in refused.stderr) == (2, True)
    assert keys.certificate.read_bytes() == before


def test_what_a_keys_folder_holds_is_shown_together(tmp_path: Path) -> None:
    told = done("keys", "show", a_fleet(tmp_path).keys)

    for what in ("authority.pem", "server.pem", "version 1 of the root", "boards:", "questions:"):
        assert what in told


def test_the_quick_root_is_handed_to_holders_elsewhere(tmp_path: Path) -> None:
    keys, elsewhere = a_fleet(tmp_path).keys, tmp_path / "elsewhere"
    for name in ("alice", "bob", "carol"):
        done("keys", "new", "holder", "--name", name, "--out", elsewhere)
    holders = [part for name in ("alice", "bob", "carol") for part in ("--holder", elsewhere / f"{name}.pub")]

    draft = done("keys", "rotate", keys / "roots", *holders, "--threshold", 2, "--sign", keys / "holder.key")
    assert "0 of 2 holders of version 2 have signed" in draft
    assert RootFolder(keys / "roots").chain()[-1].version == 1
    for name in ("alice", "carol"):
        told = done("keys", "sign", keys / "roots" / "2.root.json", "--key", elsewhere / f"{name}.key")

    assert "complete" in told
    (keys / "holder.key").unlink()
    require_credentials(a_fleet(tmp_path))


def test_a_root_that_names_other_witnesses_waits_for_those_before(tmp_path: Path) -> None:
    """Who has pinned them believes it only then, so it is not said to be complete before."""
    keys, elsewhere = a_fleet(tmp_path).keys, tmp_path / "elsewhere"
    for name in ("w1", "w2", "w3", "w4"):
        done("keys", "new", "witness", "--name", name, "--out", elsewhere)

    def named(*names: str) -> list[object]:
        return [part for name in names for part in ("--witness", elsewhere / f"{name}.pub")]

    sign = ("--sign", keys / "holder.key")
    first = done("keys", "rotate", keys / "roots", *named("w1", "w2", "w3"), "--cosignatures", 2, *sign)
    assert "complete" in first
    assert "witnesses: 2 of" in first
    assert RootFolder(keys / "roots").chain()[-1].roles[WITNESSES].threshold == 2

    second = done("keys", "rotate", keys / "roots", *named("w2", "w3", "w4"), *sign)
    assert "not complete: 0 of 2 witnesses of the version before have signed" in second
    newest = keys / "roots" / "3.root.json"
    told = done("keys", "sign", newest, "--key", elsewhere / "w1.key", "--key", elsewhere / "w3.key")
    assert f"{newest}: complete" in told
    again = fedboard("keys", "sign", newest, "--key", elsewhere / "w2.key")
    assert "enough have signed this root already" in again.stderr


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    done("keys", "new", "roster-authority", "--out", tmp_path / "authority")
    for name in ("ann", "bob"):
        done("keys", "new", "identity", "--out", tmp_path / name)
    return tmp_path


def signed(devices: Path, *names: str, authority: str = "authority") -> Result:
    listed = [devices / name / "identity.pub" for name in names]
    key = devices / authority / "roster-authority.key"
    return fedboard("keys", "sign", devices / "roster.json", *listed, "--fleet", "films", "--key", key)


def test_a_list_names_the_devices_and_its_next_version_has_the_next_number(devices: Path) -> None:
    authority = public_key(devices / "authority" / "roster-authority.pub")
    told = signed(devices, "ann", "bob").stdout
    first = Roster.load(devices / "roster.json", authority=authority)
    assert authority.hex() in told
    assert "list 1 of films, 2 devices, for 90 days" in told
    assert set(first.keys) == {public_key(devices / name / "identity.pub") for name in ("ann", "bob")}

    signed(devices, "bob")

    second = Roster.load(devices / "roster.json", authority=authority)
    assert (first.number, second.number) == (1, 2)
    assert second.keys == (public_key(devices / "bob" / "identity.pub"),)


def test_a_list_of_another_authority_is_not_replaced(devices: Path) -> None:
    signed(devices, "ann")
    done("keys", "new", "roster-authority", "--out", devices / "other")

    refused = signed(devices, "ann", authority="other")

    assert (refused.exit_code, "not signed by the authority" in refused.stderr) == (2, True)
