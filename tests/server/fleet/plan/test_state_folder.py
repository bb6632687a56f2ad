"""What a fleet's server keeps is its owner's only."""

import os
from pathlib import Path

from fedboard.server.fleet.plan.state_folder import StateFolder


def test_folders_are_their_owners_only_even_if_they_were_there_before(tmp_path: Path) -> None:
    state = StateFolder(path=tmp_path / "state", name="trial")
    before = os.umask(0o022)
    try:
        state.counts.mkdir(parents=True)
        (tmp_path / "state" / "logs").mkdir()
        assert state.path.stat().st_mode & 0o077  # as a hand-made folder usually is
        state.make()
    finally:
        os.umask(before)

    folders = [state.path, *(path for path in state.path.rglob("*") if path.is_dir())]
    assert len(folders) == 6
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
