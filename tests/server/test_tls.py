"""The authority and the server's certificate: whom a device believes."""

import socket
import ssl
import stat
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.messages.certificate_dates import read_authority
from fedboard.server import tls
from fedboard.server.tls import make_server_certificate
from tests.server.vouched import vouched_pair


def fleet_keys(folder: Path, *names: str) -> Path:
    return vouched_pair(folder, names=names)


def greet(server: Path, *, trusts: Path, name: str) -> None:
    """A TLS handshake over a pair of sockets."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(server / "server.pem", server / "server.key")
    here, there = socket.socketpair()

    def answer() -> None:
        with there:
            try:
                shown.wrap_socket(there, server_side=True).close()
            except (ssl.SSLError, OSError):
                return

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with here:
            ssl.create_default_context(cafile=str(trusts / "authority.pem")).wrap_socket(
                here, server_hostname=name
            ).close()
    finally:
        thread.join()


def test_a_device_believes_its_own_authority_for_the_names_in_the_certificate(tmp_path: Path) -> None:
    keys = fleet_keys(tmp_path, "fleet.example.org", "10.0.0.7")

    for name in ("fleet.example.org", "10.0.0.7", "localhost", "127.0.0.1"):
        greet(keys, trusts=keys, name=name)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"doesn't match|not valid for"):
        greet(keys, trusts=keys, name="elsewhere.example.org")


def test_a_device_does_not_believe_another_authority(tmp_path: Path) -> None:
    ours, theirs = fleet_keys(tmp_path / "ours"), fleet_keys(tmp_path / "theirs")

    with pytest.raises(ssl.SSLCertVerificationError):
        greet(theirs, trusts=ours, name="localhost")


def test_keys_are_for_their_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    keys = fleet_keys(tmp_path)

    for name in ("authority.key", "server.key"):
        assert stat.S_IMODE((keys / name).stat().st_mode) == 0o600
    with pytest.raises(InputError, match="is there already"):
        fleet_keys(tmp_path)


def test_a_certificate_needs_the_authority_and_its_own_key(tmp_path: Path) -> None:
    ours, theirs = fleet_keys(tmp_path / "ours"), fleet_keys(tmp_path / "theirs")
    target = {"certificate": tmp_path / "server.pem", "key": tmp_path / "server.key"}

    with pytest.raises(InputError, match="is not the key of"):
        make_server_certificate(
            **target, authority=ours / "authority.pem", authority_key=theirs / "authority.key", names=()
        )
    with pytest.raises(InputError, match="fedboard keys new authority"):
        make_server_certificate(
            **target, authority=tmp_path / "absent", authority_key=ours / "authority.key", names=()
        )


def out_of_date(folder: Path, monkeypatch: pytest.MonkeyPatch, *, days: int, since: int) -> None:
    """An authority and a server's certificate, both valid in another time."""
    monkeypatch.setattr(tls, "_AUTHORITY_DAYS", days)
    monkeypatch.setattr(tls, "_SERVER_DAYS", days)
    monkeypatch.setattr(tls, "_CLOCKS_APART", timedelta(days=since))
    tls.make_authority(folder / "ca.pem", folder / "ca.key", name="old")
    with monkeypatch.context() as patched:
        patched.setattr(tls, "require_current", lambda *_, **__: None)
        tls.make_server_certificate(
            folder / "server.pem",
            folder / "server.key",
            authority=folder / "ca.pem",
            authority_key=folder / "ca.key",
            names=(),
        )


@pytest.mark.parametrize(
    ("days", "since", "told"), [(-1, 5, r"expired on \d{4}-\d\d-\d\d"), (400, -3, "is not valid before")]
)
def test_a_certificate_that_is_out_of_date_is_said_to_be_so_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, since: int, told: str
) -> None:
    out_of_date(tmp_path, monkeypatch, days=days, since=since)

    with pytest.raises(InputError, match=rf"server\.pem: this certificate {told}.*fedboard keys renew"):
        tls.require_pair(tmp_path / "server.pem", tmp_path / "server.key")
    with pytest.raises(InputError, match=rf"ca\.pem: this certificate {told}"):
        read_authority(tmp_path / "ca.pem")
    with pytest.raises(InputError, match=rf"ca\.pem: this certificate {told}"):
        tls.make_server_certificate(
            tmp_path / "b.pem",
            tmp_path / "b.key",
            authority=tmp_path / "ca.pem",
            authority_key=tmp_path / "ca.key",
            names=(),
        )


def test_one_current_authority_among_old_ones_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of_date(tmp_path, monkeypatch, days=-1, since=5)
    old = (tmp_path / "ca.pem").read_text()
    monkeypatch.undo()
    tls.make_authority(tmp_path / "new.pem", tmp_path / "new.key", name="new")
    both = tmp_path / "both.pem"
    both.write_text(old + (tmp_path / "new.pem").read_text())

    assert read_authority(both) == both.read_text()
