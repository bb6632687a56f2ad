"""``fedboard completion``: what it writes, that bash takes it, and that it is taken back without a trace."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

BEFORE = "alias ll='ls -l'\nexport EDITOR=vi"
"""No line end at its end, as people leave their files."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "my home"))
    (tmp_path / "my home").mkdir()
    return tmp_path / "my home"


def content(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("shell", "script", "start_file"),
    [
        ("bash", ".local/share/fedboard/completion.bash", ".bashrc"),
        ("zsh", ".local/share/fedboard/completion.zsh", ".zshrc"),
        ("fish", ".config/fish/completions/fedboard.fish", None),
    ],
)
def test_it_is_installed_once_and_removed_without_a_trace(
    fedboard: Command,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    script: str,
    start_file: str | None,
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    if start_file is not None:
        (home / start_file).write_text(BEFORE)
    before = content(home)

    first = fedboard("completion", "install")
    once = content(home)
    second = fedboard("completion", "install")
    twice = content(home)
    removed = fedboard("completion", "remove")

    assert first.exit_code == second.exit_code == removed.exit_code == 0
    assert once == twice
    assert set(once) == {script} | ({start_file} if start_file else set())
    assert once[script] == fedboard("completion", "install", "--print").stdout.removesuffix("\n")
    assert str(home / script) in first.stdout
    assert "Undo it with: fedboard completion remove\n" in first.stdout
    assert content(home) == before
    assert "nothing to remove" in fedboard("completion", "remove").stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_values(fedboard: Command, home: Path) -> None:
    assert fedboard("completion", "install", "--shell", "bash").exit_code == 0
    program = home / "fedboard"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from fedboard.cli.main import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    asked = (
        f'. "{home}/.bashrc"; COMP_WORDS=(fedboard simu); COMP_CWORD=1; _fedboard_completion fedboard; '
        'echo "${COMPREPLY[@]}"; COMPREPLY=(); COMP_WORDS=(fedboard simulate --runtime f); COMP_CWORD=3; '
        '_fedboard_completion fedboard; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "HOME": str(home), "PATH": f"{home}{os.pathsep}{os.environ['PATH']}"}

    ended = subprocess.run(
        ["bash", "-c", asked], env=environment, capture_output=True, text=True, timeout=120, check=True
    )

    assert ended.stdout.split("\n") == ["simulate", "flower", ""]


def test_another_shell_is_asked_to_be_named(
    fedboard: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    result = fedboard("completion", "install", "--json")

    assert result.exit_code == 2
    assert "say for which shell: --shell bash, zsh, fish ($SHELL is 'tcsh'" in result.stderr
    assert json.loads(result.stdout)["error"]["kind"] == "input"
    assert content(home) == {}
