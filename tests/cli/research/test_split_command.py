"""A split as tables: the very rows of a run, in files and in Python, with what a model may look at."""

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import fedboard
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.splits.parts import RatingSplit
from fedboard.simulations.problem import load_problem
from fedboard.simulations.sections import DataConfig, SplitConfig
from tests.cli.conftest import Command

COLUMNS = {"user": "who", "item": "what", "rating": "stars"}
FLAGS = ("--columns", "user=who,item=what,rating=stars", "--rating-range", "1,5")
QUICK: dict[str, Any] = {
    "rank": 2,
    "rounds": 1,
    "kernels": "numpy",
    "baselines": False,
    "report": False,
    "run": {"evaluate_rounds": False},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users and items whose ids are no numbers, not in the order of the file."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 25)) < 0.6)
    rows = [
        f"p{97 * user % 60},{item:03d},{1 + (user * item) % 5}\n"
        for user, item in zip(users, items, strict=True)
    ]
    path = tmp_path_factory.mktemp("split") / "r.csv"
    path.write_text("who,what,stars\n" + "".join(rows))
    return path


def rows_of(table: pa.Table) -> set[tuple[str, str, float]]:
    return {(row["user"], row["item"], row["rating"]) for row in table.to_pylist()}


def test_files_hold_the_rows_of_a_run_by_their_ids(fedboard: Command, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "split"
    done = fedboard("data", "split", source, "--out", out, *FLAGS, "--set", "split.seed=3", "--json")
    assert done.exit_code == 0, done.stderr

    read = {name: parquet.read_table(out / f"{name}.parquet") for name in ("train", "validation", "test")}
    whole = {tuple(line.split(",")) for line in source.read_text().splitlines()[1:]}
    parts = [rows_of(table) for table in read.values()]
    assert sum(map(len, parts)) == len(whole)
    assert {(user, item, f"{rating:g}") for part in parts for user, item, rating in part} == whole
    problem = load_problem(
        SimulationConfig(
            data=DataConfig(source=str(source), columns=COLUMNS, rating_range=(1.0, 5.0)),
            split=SplitConfig(seed=3),
        )
    )
    assert isinstance(problem.split, RatingSplit)
    assert problem.user_ids is not None
    held = problem.split.test
    expected = {
        (str(problem.user_ids[user]), problem.catalogue.item_ids[item], float(value))
        for user, item, value in zip(held.users, held.items, held.values, strict=True)
    }
    assert rows_of(read["test"]) == expected
    as_text = csv.ConvertOptions(column_types={"item": pa.string(), "rating": pa.float32()})
    for name, table in read.items():
        assert csv.read_csv(out / f"{name}.csv", convert_options=as_text).to_pylist() == table.to_pylist()
    told = json.loads((out / "split.json").read_text())
    assert told["rows"] == json.loads(done.stdout)["rows"] == {name: t.num_rows for name, t in read.items()}
    assert told["split"]["seed"] == 3


def test_of_lists_there_is_what_a_model_may_look_at(fedboard: Command, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "split"
    held_out = ("--set", "split.held_out_users=0.3")
    done = fedboard("data", "split", source, "--out", out, *FLAGS, "--set", "feedback=implicit", *held_out)
    assert done.exit_code == 0, done.stderr

    read = {path.stem: rows_of(parquet.read_table(path)) for path in out.glob("*.parquet")}
    users = {name: {user for user, _, _ in rows} for name, rows in read.items()}
    assert users["test"]
    assert users["test"] == users["test_known"]
    assert users["validation"] == users["validation_known"]
    assert not users["test"] & users["train"]
    assert not users["test"] & users["validation"]
    assert not read["test"] & read["test_known"]
    assert {rating for rows in read.values() for _, _, rating in rows} == {1.0}
    assert "test_known" in done.stdout


def test_they_are_for_their_owner_and_overwrite_nothing(
    fedboard: Command, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "split"
    assert fedboard("data", "split", source, "--out", out, *FLAGS).exit_code == 0

    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (out, *out.iterdir())] == [0] * 8
    before = (out / "train.csv").read_bytes()
    again = fedboard("data", "split", source, "--out", out, *FLAGS, "--set", "split.seed=1")
    assert again.exit_code != 0
    assert again.stderr.startswith(f"fedboard: {out} is in use; give another --out")
    assert (out / "train.csv").read_bytes() == before


@pytest.mark.slow
def test_a_run_gives_its_split_and_so_do_its_files(source: Path, tmp_path: Path, fedboard: Command) -> None:
    data = {"source": str(source), "columns": COLUMNS, "rating_range": (1.0, 5.0)}
    run = _simulate(data, tmp_path / "run")
    assert fedboard("data", "split", source, "--out", tmp_path / "split", *FLAGS).exit_code == 0

    for given in (run.split, _loaded(tmp_path / "run").split):
        assert {name: rows_of(table) for name, table in given} == {
            name: rows_of(parquet.read_table(tmp_path / "split" / f"{name}.parquet")) for name, _ in given
        }


@pytest.mark.slow
def test_ratings_from_memory_stay_with_the_run_that_was_made_of_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pairs = [(f"u{user}", f"i{item}") for user in range(40) for item in rng.choice(20, 8, replace=False)]
    run = _simulate(
        ([user for user, _ in pairs], [item for _, item in pairs], [3.0] * len(pairs)),
        tmp_path / "run",
        rating_range=(1, 5),
    )

    assert {(user, item) for _, table in run.split for user, item, _ in rows_of(table)} == set(pairs)
    with pytest.raises(fedboard.errors.FedboardError, match="came from memory, and no run keeps them"):
        _ = _loaded(tmp_path / "run").split


def _simulate(data: Any, out: Path, **more: Any) -> fedboard.Run:
    return fedboard.simulate(data=data, epsilon=5.0, out=out, **QUICK, **more)


def _loaded(place: Path) -> fedboard.Run:
    return fedboard.Run.load(place)
