"""What a report reads from a run directory, and how it fails."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.server.operating.run_files import lines_of
from fedboard.simulations.reports import write_report
from fedboard.simulations.reports.run_files import RunRecord, model_from_json, read_run

WriteRun = Callable[..., Path]


def record_of(run: Path) -> RunRecord:
    return read_run(run, lines_of(run / "metrics.jsonl"))


def test_a_round_repeated_after_a_resume_counts_once_with_its_last_line(
    tmp_path: Path, write_run: WriteRun
) -> None:
    lines = [
        {"event": "round", "round": number, "stage": "items", "seconds": k}
        for k, number in enumerate([0, 1, 1, 2])
    ]

    record = record_of(write_run(tmp_path / "run", metrics=lines))

    assert [entry["seconds"] for entry in record.rounds] == [0, 2, 3]


def test_half_a_last_line_is_left_out(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write('{"event": "ro')

    assert len(record_of(run).rounds) == 3


def test_damage_in_the_middle_names_file_and_line(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text("\n".join([lines[0], "{", *lines[1:]]))

    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2 is not valid JSON"):
        write_report(run)


def test_baselines_of_both_files_are_merged(tmp_path: Path, write_run: WriteRun) -> None:
    record = record_of(write_run(tmp_path / "run"))

    assert {model.name: model.metrics["test_rmse"] for model in record.baselines} == {
        "non-private ALS": 0.8642,
        "item mean": 0.9876,
    }
    assert record.baselines[0].sliced == {"test_rmse": [1.2] * 5}


def test_not_a_number_is_no_metric() -> None:
    assert model_from_json("x", json.loads('{"test_rmse": NaN, "test_mae": 1}')).metrics == {"test_mae": 1.0}
