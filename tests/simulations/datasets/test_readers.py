"""One list of formats: what reads, recognises, lists and documents them."""

import pytest

from fedboard.simulations.datasets import FORMATS, load_ratings
from fedboard.simulations.datasets.readers import READERS, find_source


def test_each_format_is_stated_once() -> None:
    assert len(set(FORMATS)) == len(FORMATS) == len(READERS)


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
