"""Which algorithm a run names: an installed one, or the record in a file or module of one's own."""

from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.runs.calibrated import chosen_algorithm, loading_of
from fedboard.simulations.runs.without_privacy import name_of
from fedboard.simulations.sweeps.sweep import Grid, SweepRecord, plan_cells

FILE = Path(__file__).parents[3] / "examples" / "damped_means.py"
OWN = f"{FILE}:ALGORITHM"


def test_a_file_is_loaded_once_in_a_process() -> None:
    chosen = chosen_algorithm(OWN)

    assert chosen.algorithm.name == chosen.name == "damped-means"
    assert chosen_algorithm(OWN).algorithm is chosen.algorithm
    loading = loading_of(OWN)
    assert loading is not None
    assert loading() == chosen


def test_a_module_that_can_be_imported_is_taken_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_means.py").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    assert chosen_algorithm("somebodys_means:ALGORITHM").name == "damped-means"
    with pytest.raises(InputError, match="algorithm module 'nobodys_means' cannot be imported"):
        chosen_algorithm("nobodys_means:ALGORITHM")


@pytest.mark.parametrize(
    ("text", "record", "message"),
    [
        ("ALGORITHM = 3", "ALGORITHM", "must be an Algorithm record, got int"),
        ("", "ALGORITHM", "must be an Algorithm record, got NoneType"),
        ("1 / 0", "ALGORITHM", "cannot be loaded: ZeroDivisionError"),
        ("x = (", "ALGORITHM", "cannot be loaded: SyntaxError"),
        (
            "from fedboard.common.algorithms.residual.algorithm import ALGORITHM",
            "ALGORITHM",
            "has the name 'residual' of an installed one",
        ),
        (
            "from dataclasses import replace\n"
            "from fedboard.common.algorithms.residual.algorithm import ALGORITHM as R\n"
            "MINE = replace(R, name='dpals-tail')",
            "MINE",
            "has the name 'dpals-tail' of an installed one",
        ),
    ],
)
def test_what_cannot_be_taken_is_named(tmp_path: Path, text: str, record: str, message: str) -> None:
    (tmp_path / "own.py").write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match=message):
        chosen_algorithm(f"{tmp_path / 'own.py'}:{record}")


@pytest.mark.parametrize("runtime", ["in-process", "flower"])
def test_clients_of_a_grid_take_what_is_installed(runtime: str) -> None:
    with pytest.raises(InputError, match=r"an algorithm of your own needs run\.runtime 'engine'"):
        parse_config({"algorithm": OWN, "run": {"runtime": runtime}})


def test_it_is_swept_beside_others_under_its_own_label(tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    record = SweepRecord(grid=Grid(algorithms=(OWN, "residual", "als"), epsilons=(5.0,)))

    assert [cell.name for cell in plan_cells(record)] == [
        "damped_means-eps5-seed0",
        "residual-eps5-seed0",
        "als",
    ]
    assert name_of(parse_config({"algorithm": OWN})) == "damped_means-eps5"
    with pytest.raises(InputError, match="go by the same name"):
        plan_cells(SweepRecord(grid=Grid(algorithms=(OWN, f"{tmp_path / FILE.name}:ALGORITHM"))))
