"""What a fleet's server keeps is its owner's only; its keys have fixed names."""

import os
from pathlib import Path

from fedboard.server.fleet.plan.state_folder import KeysFolder, StateFolder


def test_folders_are_their_owners_only_even_if_they_were_there_before(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state", "trial")
    before = os.umask(0o022)
    try:
        state.run.mkdir(parents=True)
        assert state.path.stat().st_mode & 0o077  # as a hand-made folder usually is
        state.make()
    finally:
        os.umask(before)

    folders = [state.path, *(path for path in state.path.rglob("*") if path.is_dir())]
    assert len(folders) == 3
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_further_board_keys_sign_beside_the_first(tmp_path: Path) -> None:
    for name in ("boards-b.key", "boards-a.key", "boards.pub", "other.key"):
        (tmp_path / name).touch()

    names = [path.name for path in KeysFolder(tmp_path).boards]

    assert names == ["boards.key", "boards-a.key", "boards-b.key"]
