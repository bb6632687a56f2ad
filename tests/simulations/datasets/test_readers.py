"""One list of formats: what reads, recognises, lists and documents them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.errors import InputError
from fedboard.simulations.datasets import FORMATS, ColumnMapping, load_ratings
from fedboard.simulations.datasets.readers import READERS, find_source

ROOT = Path(__file__).parents[3]


def test_each_format_is_stated_once() -> None:
    assert len(set(FORMATS)) == len(FORMATS) == len(READERS)


@pytest.mark.parametrize("reader", READERS, ids=FORMATS)
def test_the_guide_has_a_line_for_each_format_as_its_reader_says(reader) -> None:
    page = (ROOT / "docs/guide/data.md").read_text(encoding="utf-8")

    assert f"| `{reader.name}` | {reader.what} | {reader.given_as} |\n" in page


def test_the_guide_has_no_format_that_is_not_read() -> None:
    page = (ROOT / "docs/guide/data.md").read_text(encoding="utf-8")
    table = page.partition("| format |")[2].partition("\n\n")[0]

    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert named == list(FORMATS)


@pytest.mark.parametrize("command", [("simulate",), ("sweep",), ("data", "info"), ("data", "cohort")])
def test_help_names_the_formats(command) -> None:
    shown = CliRunner().invoke(commands, [*command, "--help"], terminal_width=100)

    assert f"Format, where it is not recognised: {', '.join(FORMATS)}." in " ".join(shown.output.split())


def test_a_command_lists_them() -> None:
    shown = CliRunner().invoke(commands, ["data", "formats"])

    assert [line.split()[0] for line in shown.output.splitlines()] == ["format", *FORMATS]


@pytest.mark.parametrize("name", ["movielens-1m", "movielens-10m", "movielens-100k", "movielens-20m"])
def test_a_folder_or_its_file_is_read_by_the_reader_of_its_format(write_ratings, name) -> None:
    folder = write_ratings(name)

    for path in (folder, folder / find_source(folder, None, mapped=False).file.base_name):
        assert find_source(path, None, mapped=False).reader.name == name


@pytest.mark.parametrize("name", ["csv", "tsv", "parquet"])
def test_a_table_is_read_by_the_reader_of_its_format(write_ratings, name) -> None:
    assert find_source(write_ratings(name), None, mapped=False).reader.name == name


def test_named_titles_tell_twins_apart(tmp_path) -> None:
    (tmp_path / "ratings.dat").write_text("1::1::4::0\n65133::65133::4::0\n")
    (tmp_path / "listed.dat").write_text("1::One::Drama\n65133::Last::Drama\n")

    ratings = load_ratings(tmp_path / "ratings.dat", titles=tmp_path / "listed.dat")

    assert ratings.rating_range == (0.5, 5.0)


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.xyz", "ratings.csv"])
def test_line_ends_that_no_table_has_are_said_in_a_sentence(tmp_path, name) -> None:
    (tmp_path / name).write_bytes(b"user,item,rating\ra,b,3\r")

    with pytest.raises(InputError, match=r"line 1 is no line of a table|format is not recognised"):
        load_ratings(tmp_path / name, rating_range=(1, 5))


def test_columns_that_are_named_make_a_text_a_plain_table(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("userId,movieId,rating\n1,2,3\n")

    assert find_source(path, None, mapped=False).reader.name == "movielens-20m"
    assert find_source(path, None, mapped=True).reader.name == "csv"
    columns = ColumnMapping(user="userId", item="movieId")
    assert load_ratings(path, columns=columns, rating_range=(1, 5)).n_ratings == 1
