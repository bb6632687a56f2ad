"""``fedboard data shard`` and what reads a sharded folder, from the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fedboard.server.publication import BoardStore
from tests.cli.conftest import Command

GENERIC = ("--columns", "user=who,item=what,rating=stars,time=when", "--rating-range", "1,5")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 25)) < 0.5)
    lines = [
        f"p{user},{item},{1 + (user * item) % 5},{10**9 + 3600 * user * item}\n"
        for user, item in zip(users, items, strict=True)
    ]
    path = tmp_path_factory.mktemp("table") / "r.csv"
    path.write_text("who,what,stars,when\n" + "".join(lines))
    return path


@pytest.fixture
def shards(fedboard: Command, table: Path, tmp_path: Path) -> Path:
    out = tmp_path / "shards"
    result = fedboard("data", "shard", table, "--out", out, "--shard-ratings", "200", *GENERIC)
    assert result.exit_code == 0, result.stderr
    assert re.fullmatch(
        rf"r: 60 users, 25 items, \d+ ratings in [34] files of {out} \([0-9,]+ bytes\)\n", result.stdout
    )
    return out


def test_what_is_sharded_is_told_as_what_it_was_made_of(fedboard: Command, table: Path, shards: Path) -> None:
    for flags in (("--json",), ("--json", "--times"), ()):
        whole = fedboard("data", "info", table, *GENERIC, *flags)
        parts = fedboard("data", "info", shards, *flags)

        assert whole.exit_code == parts.exit_code == 0, parts.stderr
        if flags:
            assert json.loads(parts.stdout) == json.loads(whole.stdout)
        else:
            assert parts.stdout == whole.stdout


def test_a_document_says_what_was_made(fedboard: Command, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "other"
    result = fedboard("data", "shard", table, "--out", out, *GENERIC, "--no-times", "--json")

    made = json.loads(result.stdout)
    assert (made["name"], made["users"], made["items"], made["shards"]) == ("r", 60, 25, 1)
    assert made["times"] is False
    assert made["bytes"] == (out / "ratings-00000.parquet").stat().st_size
    assert "reading: " in result.stderr
    assert "writing shards: " in result.stderr


def test_users_of_shards_go_to_a_gateway(
    fedboard: Command, table: Path, shards: Path, tmp_path: Path
) -> None:
    for source, folder, more in ((table, "a", GENERIC), (shards, "b", ())):
        cut = ("data", "shard", source, "--as", "cohort", "--users", "20:30")
        result = fedboard(*cut, "--out", tmp_path / folder, *more)
        assert result.exit_code == 0, result.stderr

    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.slow
def test_boards_of_shards_are_those_of_what_they_were_made_of(
    fedboard: Command, table: Path, shards: Path, tmp_path: Path
) -> None:
    flags = ("--algorithm", "bias-private", "--set", "run.kernels=numpy", "--no-baselines", "--no-report")
    for source, run, more in ((table, "a", GENERIC), (shards, "b", ())):
        result = fedboard("simulate", "--data", source, *more, "--out", tmp_path / run, *flags)
        assert result.exit_code == 0, result.stderr

    one, other = (BoardStore(tmp_path / run / "boards").latest() for run in "ab")
    assert one.catalogue == other.catalogue
    assert one.version == other.version > 0
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(other.arrays[name], array)
    asked = fedboard("simulate", "--data", shards, "--rating-range", "1,5", "--columns", "user=u", *flags)
    assert asked.exit_code == 2
    assert "says itself which columns" in asked.stderr


def test_a_second_run_and_options_that_do_not_fit_are_refused(
    fedboard: Command, table: Path, shards: Path
) -> None:
    again = fedboard("data", "shard", table, "--out", shards, *GENERIC)
    ranged = fedboard("data", "info", shards, "--rating-range", "1,5")
    little = fedboard("data", "shard", table, "--out", "x", "--memory", "0.001")

    assert (again.exit_code, ranged.exit_code, little.exit_code) == (2, 2, 2)
    assert "is there already; choose another place" in again.stderr
    assert "is sharded and says itself how it is read" in ranged.stderr
    assert "--memory" in little.stderr
