"""``fedboard helper``: what it says when it cannot start."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.server.tls import make_authority, make_server_certificate


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    authority, key = tmp_path / "authority.crt", tmp_path / "authority.key"
    make_authority(authority, key, name="test")
    make_server_certificate(
        tmp_path / "helper.crt", tmp_path / "helper.key", authority=authority, authority_key=key, names=[]
    )
    return tmp_path


def refused(keys: Path, **changed: str) -> str:
    """The sentence, and that it is the input's fault."""
    given = {"certificate": "helper.crt", "private-key": "helper.key", "identity": "id.key", "state": "state"}
    flags = [f"--{name}={keys / value}" for name, value in (given | changed).items() if name != "listen"]
    listen = [f"--listen={changed['listen']}"] if "listen" in changed else []
    done = CliRunner().invoke(commands, ["helper", "--port=0", *flags, *listen])
    assert done.exit_code == 2
    return done.stderr


def test_what_cannot_be_used_is_named_in_one_sentence(keys: Path) -> None:
    (keys / "loose").write_text("ab" * 32)
    (keys / "loose").chmod(0o644)
    (keys / "file").write_text("")

    assert "cannot both be read" in refused(keys, certificate="nowhere")
    assert "another certificate" in refused(keys, **{"private-key": "authority.key"})
    assert "others can read this token" in refused(keys, token="loose")
    assert "no folder can be made" in refused(keys, state="file/state")
    assert "cannot listen" in refused(keys, listen="192.0.2.1")
    assert "no private key" in refused(keys, identity="file")
