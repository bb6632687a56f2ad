"""Data sets by name, looked up in the folder that the environment points at."""

from pathlib import Path

import pytest

from fedboard.simulations.data import find_data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDBOARD_DATA", str(tmp_path))
    (tmp_path / "films").mkdir()
    (tmp_path / "books.npz").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "found"), [("films", "films"), ("books", "books.npz"), ("books.npz", "books.npz")]
)
def test_a_name_is_found_in_the_folder(folder: Path, name: str, found: str) -> None:
    assert find_data(name) == str(folder / found)


def test_a_path_wins_over_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = folder / "elsewhere"
    (elsewhere / "films").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)

    assert find_data("films") == "films"


def test_without_the_folder_nothing_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDBOARD_DATA", raising=False)

    assert find_data("films") == "films"
