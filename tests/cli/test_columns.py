"""A table whose columns have other names: every command that reads ratings says what to type, and takes it."""

import re
import shlex
from pathlib import Path

import click
import pytest

from fedboard.cli.main import commands
from fedboard.common.checks import try_columns
from tests.cli.conftest import Command
from tests.walk import leaves

MANY = "userId,movie,stars,when\n" + "".join(
    f"{u},{i},{1 + (u + i) % 5},0\n" for u in range(9) for i in range(6)
)
OWN = "movie,stars\n1,5\n2,4\n"
OF_MANY = {
    ("simulate",): ("--data", "{}"),
    ("sweep",): ("--data", "{}"),
    ("tune",): ("--data", "{}", "--public", "made up"),
    ("audit",): ("--data", "{}"),
    ("query",): ("mean", "--data", "{}", "--epsilon", "1", "--ledger", "paid", "--budget", "2"),
    ("data", "info"): ("{}",),
    ("data", "shard"): ("{}", "--out", "shards"),
    ("data", "split"): ("{}", "--out", "split"),
}
"""How each command that reads a table of many users is given one."""
OF_ONE = {
    ("recommend",): ("{}", "{run}"),
    ("explain",): ("3", "{}", "{run}"),
    ("ratings", "import"): ("{}", "--device", "{device}"),
}


def suggested(sentence: str) -> list[str]:
    found = re.search(r"try (--columns \S+)", sentence)
    assert found is not None, sentence
    return shlex.split(found[1])


def test_these_are_all_that_read_ratings() -> None:
    takes = {path for path, c in leaves(commands).items() if any("--columns" in p.opts for p in c.params)}
    reads = {
        path
        for path, c in leaves(commands).items()
        if any(
            "--data" in p.opts and "atings" in (p.help or "") for p in c.params if isinstance(p, click.Option)
        )
    }

    assert takes == set(OF_MANY) | set(OF_ONE)
    assert reads <= takes


@pytest.mark.parametrize("path", OF_MANY, ids=" ".join)
def test_a_table_of_many_users_is_read_as_suggested(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text(MANY)
    arguments = [part.format("r.csv") for part in OF_MANY[path]]

    missed = fedboard(*path, *arguments)
    told = suggested(missed.stderr)
    taken = fedboard(*path, *arguments, *told)

    assert missed.exit_code == taken.exit_code == 2
    assert (
        "r.csv, line 1: there is no column 'user' for the user, only userId, movie, stars, when; try"
        in missed.stderr
    )
    assert told == ["--columns", "user=userId,item=movie,rating=stars"]
    assert (
        "the rating range of this format is not known; declare it, for example --rating-range 1,5"
        in taken.stderr
    )


def test_what_was_suggested_is_enough(fedboard: Command, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(MANY)
    given = ("--columns", "user=userId,item=movie,rating=stars", "--rating-range", "1,5")

    result = fedboard("data", "info", tmp_path / "r.csv", *given)

    assert result.exit_code == 0
    assert "54 from 1 to 5" in result.stdout


@pytest.mark.parametrize("path", OF_ONE, ids=" ".join)
def test_a_person_s_own_file_is_read_as_suggested(
    fedboard: Command, finished: Path, tmp_path: Path, path: tuple[str, ...]
) -> None:
    fedboard("ratings", "init", tmp_path / "device")
    mine = tmp_path / "mine.csv"
    mine.write_text(OWN)
    arguments = [
        part.format(mine, run=finished, device=tmp_path / "device" / "device.toml") for part in OF_ONE[path]
    ]

    missed = fedboard(*path, *arguments)
    told = suggested(missed.stderr)
    taken = fedboard(*path, *arguments, *told)

    assert missed.exit_code == 2
    assert "got 'movie,stars'; try --columns" in missed.stderr
    assert taken.exit_code == 0, taken.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("user", "--columns must be ROLE=NAME,..."),
        ("user=a,user=b", "each role once"),
        (
            "usr=a",
            "a role of --columns must be one of user, item, rating, title, time, got 'usr'; did you mean 'user'?",
        ),
    ],
)
def test_a_mapping_that_is_none_is_refused(fedboard: Command, given: str, told: str) -> None:
    result = fedboard("data", "info", "r.csv", "--columns", given)

    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("found", "guess"),
    [
        (["userId", "movieId", "rating", "timestamp"], "user=userId,item=movieId"),
        (["reviewerID", "asin", "overall", "unixReviewTime"], "user=reviewerID,item=asin,rating=overall"),
        (["customer_id", "book title", "stars"], "'user=customer_id,item=book title,rating=stars'"),
        (["1", "31", "2.5", "1260759144"], None),
        (["a=b", "c", "d"], None),
    ],
)
def test_columns_are_guessed_by_their_names_then_by_their_places(found: list[str], guess: str | None) -> None:
    told = try_columns(found, {"user": "user", "item": "item", "rating": "rating"})

    assert told == ("" if guess is None else f"; try --columns {guess}")
