"""What an experiment leaves behind: one JSON object, pictures, and a page that can be read."""

import json
from pathlib import Path

import numpy as np
import pytest

from research.shared.drawing import house_style, new_figure
from research.shared.experiment import Experiment, Outcome, Setting
from research.shared.writing import record_of, write_outcome


def never(setting: Setting) -> Outcome:
    raise AssertionError("writing is not running")


EXPERIMENT = Experiment(paper="jain", figure="2", title="A title", minutes=1.0, data="Made up.", run=never)


def outcome(**numbers: object) -> Outcome:
    with house_style():
        figure = new_figure(3, 2)
        figure.subplots().plot([1, 2], [3, 4])
    return Outcome(
        numbers=numbers, settings={"place": Path("a")}, comparison="As in the paper.", figures={"f": figure}
    )


def test_numbers_are_at_the_top_level_and_plain() -> None:
    found = outcome(mse={"a": {"1": np.float64(0.5), "2": float("nan")}}, n=np.int64(3), row=np.arange(2))

    record = record_of(EXPERIMENT, found, seconds=1.23456)

    assert record["mse"] == {"a": {"1": 0.5, "2": None}}
    assert (record["n"], record["row"], record["seconds"]) == (3, [0, 1], 1.235)
    assert record["settings"] == {"place": "a"}
    json.dumps(record, allow_nan=False)


def test_numbers_may_not_hide_what_describes_them() -> None:
    with pytest.raises(ValueError, match="settings"):
        record_of(EXPERIMENT, outcome(settings=1), seconds=1.0)


def test_pictures_numbers_and_a_page_are_written(tmp_path: Path) -> None:
    found = outcome(mse={"a": {"1": 0.5, "2": 0.25}, "b": {"1": 1.0}}, n=3)
    record = record_of(EXPERIMENT, found, seconds=2.0)

    files = write_outcome(record, found, tmp_path)

    assert {path.name for path in files} == {"f.svg", "f.png", "numbers.json", "README.md"}
    assert all(path.stat().st_size for path in files)
    assert json.loads((tmp_path / "numbers.json").read_text()) == record
    page = (tmp_path / "README.md").read_text()
    assert all(
        part in page
        for part in ("# A title", "As in the paper.", "Made up.", "| a | 0.5 | 0.25 |", "(f.svg)")
    )
