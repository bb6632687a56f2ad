"""Keys of nodes: who may read them, that none is lost, and that those of ``ssh-keygen`` will do."""

import stat
import subprocess
from pathlib import Path
from shutil import which

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import load_private_key, make_node_key, public_key_pem, write_new


def test_the_private_half_is_for_its_owner_alone_and_belongs_to_the_public_one(tmp_path: Path) -> None:
    private = tmp_path / "ann" / "node.key"

    public = make_node_key(private, name="ann")

    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert public.read_text().startswith("ecdsa-sha2-nistp384 ")
    assert public.read_text().endswith(" ann\n")
    own = load_private_key(private).public_key()
    pem = own.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    assert public_key_pem(public.read_text(), source="test") == pem


def test_no_key_is_overwritten(tmp_path: Path) -> None:
    make_node_key(tmp_path / "node.key", name="ann")
    before = (tmp_path / "node.key").read_bytes()

    with pytest.raises(InputError, match="is there already"):
        make_node_key(tmp_path / "node.key", name="ann")

    assert (tmp_path / "node.key").read_bytes() == before


def test_nothing_is_left_where_the_second_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "node.pub").write_text("mine")

    with pytest.raises(InputError, match="is there already"):
        make_node_key(tmp_path / "node.key", name="ann")

    assert not (tmp_path / "node.key").exists()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    make_node_key(tmp_path / "node.key", name="ann")
    (tmp_path / "node.key").chmod(0o640)

    with pytest.raises(InputError, match="chmod 600"):
        load_private_key(tmp_path / "node.key")


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    write_new(secret={tmp_path / "node.key": b"hello"})

    with pytest.raises(InputError, match="not a private key"):
        load_private_key(tmp_path / "node.key")
    with pytest.raises(InputError, match="no private key can be read"):
        load_private_key(tmp_path / "absent.key")
    with pytest.raises(InputError, match="the test: not a line"):
        public_key_pem("hello", source="the test")


@pytest.mark.skipif(which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_key_of_ssh_keygen_will_do(tmp_path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(tmp_path / "node")]
    subprocess.run(command, check=True)

    load_private_key(tmp_path / "node")
    assert public_key_pem((tmp_path / "node.pub").read_text(), source="test").startswith("-----BEGIN")
