"""How an audit says how long it will take."""

import pytest

from fedboard.cli.research import audit as progress


@pytest.mark.parametrize(
    ("games", "seconds", "step", "line"),
    [
        (1, 0.0, ("noise", 0, 1), "noise of every release, no users"),
        (1, 40.0, ("file", 0, 1), "one user more or less in the file, about 0:01:00 left"),
        (1, 80.0, ("board", 0, 1), "board-only games, about 0:00:20 left"),
        (21, 75.0, ("canaries", 1, 21), "canary games, about 0:05:25 left (2 of 21)"),
        (1, 90.0, ("board", 1, 1), ""),
    ],
)
def test_each_phase_says_what_is_left_by_the_time_so_far(
    games: int,
    seconds: float,
    step: tuple[str, int, int],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = iter((1000.0, 1000.0 + seconds))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(progress, "_BEFORE", {"noise": 0.0, "file": 0.4, "canaries": 0.6, "board": 0.8})
    monkeypatch.setattr(progress, "_A_GAME", 0.15)

    with progress.stepping(games) as tell:
        tell(*step)

    assert capsys.readouterr().err.strip() == line
