"""Bad input ends in one sentence and an exit code, and leaves nothing behind."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.common.errors import BudgetExceededError
from tests.cli.conftest import Command


def sentence(result: Result) -> str:
    """The one line that a failed command prints."""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("fedboard: ")
    return result.stderr


BAD_RATINGS = {
    "ml-1m/ratings.dat": b"1::1::5::0\n1::2::9::0\n",
    "table.csv": b"user,item,rating\na,b,3\na,c,nan\n",
    "empty.csv": b"",
    "broken.zip": b"PK\x03\x04 and nothing more",
    "broken.npz": b"PK\x03\x04 and nothing more",
    "broken.parquet": b"PAR1 and nothing more",
    "unknown.bin": b"\x00\x01\x02",
    "missing.csv": None,
}
"""Each with one thing wrong; what else readers refuse is tested with them."""


@pytest.mark.parametrize("kind", BAD_RATINGS)
def test_bad_ratings_are_refused_by_name_and_leave_nothing(
    fedboard: Command, tmp_path: Path, kind: str
) -> None:
    data, out = tmp_path / kind, tmp_path / "runs" / "out"
    data.parent.mkdir(exist_ok=True)
    if (content := BAD_RATINGS[kind]) is not None:
        data.write_bytes(content)

    simulated = fedboard("simulate", "--data", data, "--rating-range", "1,5", "--out", out)
    described = fedboard("data", "info", data, "--rating-range", "1,5")

    for result in (simulated, described):
        assert result.exit_code == 2
        assert Path(kind).name in sentence(result)
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--epsilon", "-1"), "privacy.epsilon must be a finite number > 0, got -1"),
        (("--seed", "-1"), "seed must be a whole number >= 0, got -1"),
        (("--set", "settings.rank=many"), "settings: rank must be a whole number, got a text"),
        (("--set", "data.source=x", "--set", "data.columns.person=a"), "data.columns: unknown key 'person'"),
        (("--delta", "1"), "privacy.delta must be in (0, 1), got 1.0"),
        (("--algorithm", "magic"), "algorithm must be one of adadpals"),
        (("--algorithm", "magic"), "or without privacy one of item-mean"),
        (("--algorithm", "als", "--runtime", "in-process"), "leave run.runtime (--runtime) at 'engine'"),
        (("--algorithm", "popularity"), "'popularity' is not for explicit feedback"),
        (("--algorithm", "als", "--set", "settings.clip_norm=1"), "unknown key 'clip_norm' for als"),
        (("--set", "privacy.shares.counts=1.5"), "shares.counts must be in (0, 1), got 1.5"),
        (("--set", "nonsense=1"), "unknown key 'nonsense'; known are algorithm"),
        (("--set", "seed"), "--set needs KEY=VALUE"),
        (("--set", "seed=[1"), "is not a TOML value"),
        (("--set", "split.kind=users"), "explicit feedback is judged on held-out ratings"),
        (("--rating-range", "5"), "--rating-range must be LOW,HIGH"),
        (("--resume",), "holds no run to resume"),
    ],
)
def test_a_bad_configuration_is_refused_and_leaves_nothing(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out"

    result = fedboard("simulate", *tiny, *flags, "--out", out)

    assert result.exit_code in (2, 3), result.stderr
    assert message in sentence(result)
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon 5", "not valid TOML"),
        ("[privacy]\nepsilon = 'much'", "privacy.epsilon must be a number, got a text"),
        ("[privacy]\nepsilom = 5", "unknown key 'epsilom'"),
    ],
)
def test_a_bad_file_of_settings_is_refused_by_name(
    fedboard: Command, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)

    result = fedboard("simulate", path, "--out", tmp_path / "out")

    assert result.exit_code == 2
    assert message in sentence(result)
    assert "run.toml" in result.stderr
    assert fedboard("simulate", tmp_path / "missing.toml").exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_run_that_would_overspend_is_refused_before_it_starts(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedboard.server import calibrating as algorithms

    honest = algorithms.noise_multipliers
    monkeypatch.setattr(
        algorithms, "noise_multipliers", lambda *a, **k: {name: z / 2 for name, z in honest(*a, **k).items()}
    )

    result = fedboard("simulate", *tiny, "--out", tmp_path / "out")

    assert result.exit_code == BudgetExceededError.exit_code == 3
    assert "the whole plan is refused" in sentence(result)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_directory_in_use_is_never_written_to(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("")

    taken = fedboard("simulate", *tiny, "--out", finished)
    foreign = fedboard("simulate", *tiny, "--out", tmp_path)
    a_file = fedboard("simulate", *tiny, "--out", tmp_path / "file")
    other = fedboard("simulate", *tiny, "--epsilon", "4", "--out", finished, "--resume")

    assert "holds a run already; go on with --resume" in sentence(taken)
    assert "is in use by something else" in sentence(foreign)
    assert "is in use by something else" in sentence(a_file)
    assert "was started with another 'privacy'" in sentence(other)
    assert {taken.exit_code, foreign.exit_code, a_file.exit_code, other.exit_code} == {2}
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "thesis.tex"]


def test_a_device_gets_sentences_too(fedboard: Command, finished: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n1,4\n")

    assert f"{mine}, line 3: item '1' is listed twice" in sentence(fedboard("recommend", mine, finished))
    assert "nothing can be read there" in sentence(fedboard("recommend", tmp_path / "no.csv", finished))
    assert "no such file or directory" in sentence(fedboard("recommend", mine, tmp_path / "no"))
    assert "not a complete fedboard board" in sentence(fedboard("recommend", mine, mine))
    assert "not in the board's catalogue" in sentence(
        fedboard("explain", "--neighbours", "nothing like it", finished)
    )
    early = finished / "boards" / "board-0001.board"
    assert "has learnt nothing about the items yet" in sentence(fedboard("recommend", mine, early))


NO_FILE = (
    ("recommend", "IT", "RUN"),
    ("recommend", "RATINGS", "IT"),
    ("certificate", "verify", "IT"),
    ("certificate", "show", "IT"),
    ("account", "IT"),
    ("simulate", "IT"),
    ("simulate", "--data", "IT"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kind"),
    [*((words, "/dev/zero") for words in NO_FILE), *((words, "fifo") for words in NO_FILE[:3])],
)
def test_what_is_no_file_and_never_ends_is_refused(
    words: tuple[str, ...], kind: str, finished: Path, tmp_path: Path
) -> None:
    """In a process of its own, with little memory, which a reader of it all would fill within seconds."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "mine.csv").write_text("item,rating\n1,5\n")
    places = {"IT": tmp_path / kind, "RUN": finished, "RATINGS": tmp_path / "mine.csv"}
    limited = 'ulimit -v 4000000; exec "$0" "$@"'
    named = [str(places.get(word, word)) for word in words]
    command = ["bash", "-c", limited, str(Path(sys.executable).with_name("fedboard")), *named]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"fedboard: {places['IT']}: not a regular file" in ended.stderr


def test_a_bug_is_one_line_and_a_traceback_only_on_request(
    fedboard: Command, tiny: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedboard.simulations import data

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(data, "load_ratings", broken)

    result = fedboard("data", "info", "synthetic")
    debugged = fedboard("data", "info", "synthetic", "--debug")

    assert result.exit_code == debugged.exit_code == 70
    assert "unexpected ZeroDivisionError: by zero; this is a bug, run again with --debug" in sentence(result)
    assert "Traceback" in debugged.stderr
    assert "in broken" in debugged.stderr


def test_a_full_disk_is_no_bug(fedboard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedboard.simulations import data

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/big/file")

    monkeypatch.setattr(data, "load_ratings", full)

    result = fedboard("data", "info", "synthetic")

    assert result.exit_code == 1
    assert sentence(result) == "fedboard: /big/file: No space left on device\n"


@pytest.mark.slow
def test_ctrl_c_before_anything_is_written_leaves_nothing(
    fedboard: Command, tiny: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fedboard.simulations import simulate

    monkeypatch.setattr(simulate, "load_any", lambda config: signal.raise_signal(signal.SIGINT))

    result = fedboard("simulate", *tiny, "--out", tmp_path / "out")

    assert result.exit_code == 130
    assert sentence(result) == "fedboard: interrupted before anything was written\n"
    assert not (tmp_path / "out").exists()
