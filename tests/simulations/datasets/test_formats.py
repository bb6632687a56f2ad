import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet

from fedboard.simulations.datasets import ColumnMapping, Ratings, load_ratings

MOVIELENS = {
    "movielens-100k": (1.0, 5.0),
    "movielens-1m": (1.0, 5.0),
    "movielens-10m": (0.5, 5.0),
    "movielens-20m": (0.5, 5.0),
}
RATINGS_FILES = {
    "movielens-100k": "u.data",
    "movielens-1m": "ratings.dat",
    "movielens-10m": "ratings.dat",
    "movielens-20m": "ratings.csv",
}
GENERIC = ("csv", "tsv", "parquet", "npz")


def assert_is_the_five_ratings(ratings: Ratings) -> None:
    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == (3, 2, 5)
    assert_array_equal(ratings.users, [0, 0, 1, 2, 2])
    assert_array_equal(ratings.items, [0, 1, 1, 0, 1])
    assert_array_equal(ratings.values, [1, 2, 3, 4, 5])
    assert (ratings.users.dtype, ratings.items.dtype, ratings.values.dtype) == (
        np.int32,
        np.int32,
        np.float32,
    )


@pytest.mark.parametrize("name", MOVIELENS)
def test_movielens_folder_is_read_with_titles_and_range(name, write_ratings):
    ratings = load_ratings(write_ratings(name))

    assert_is_the_five_ratings(ratings)
    assert ratings.rating_range == MOVIELENS[name]
    assert ratings.item_ids.tolist() == ["9", "10"]
    assert ratings.user_ids.tolist() == [1, 2, 3]
    assert ratings.titles == ("Amélie (2001)", "Heat, the (1995)")


@pytest.mark.parametrize("name", MOVIELENS)
def test_ratings_file_named_by_itself_finds_its_titles(name, write_ratings):
    folder = write_ratings(name)

    ratings = load_ratings(folder / RATINGS_FILES[name])

    assert_is_the_five_ratings(ratings)
    assert ratings.titles is not None
    assert ratings.name == folder.name


@pytest.mark.parametrize("name", MOVIELENS)
def test_zip_archive_is_read_like_its_folder(name, write_ratings, zip_folder):
    folder = write_ratings(name)
    archive = zip_folder(folder)
    expected = load_ratings(folder)
    before = sorted(folder.parent.iterdir())

    ratings = load_ratings(archive)

    assert_is_the_five_ratings(ratings)
    assert ratings.titles == expected.titles
    assert ratings.rating_range == expected.rating_range
    assert ratings.name == expected.name
    assert sorted(folder.parent.iterdir()) == before, "nothing is unpacked"


@pytest.mark.parametrize("name", GENERIC)
def test_generic_file_is_read_with_a_declared_range(name, write_ratings):
    ratings = load_ratings(write_ratings(name), rating_range=(0, 10))

    assert_is_the_five_ratings(ratings)
    assert ratings.rating_range == (0.0, 10.0)
    assert ratings.titles is None
    assert ratings.name == "five"


def test_text_ids_are_kept_and_sorted_as_text(write_ratings):
    ratings = load_ratings(write_ratings("csv"), rating_range=(1, 5))

    assert ratings.user_ids.tolist() == ["u1", "u2", "u3"]
    assert ratings.item_ids.tolist() == ["jam", "tea"]


def test_columns_are_found_by_the_mapping(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text('score,note,who,what\n4.5,"a, quoted\nnote",ann,tea\n')

    ratings = load_ratings(
        path, columns=ColumnMapping(user="who", item="what", rating="score"), rating_range=(0, 5)
    )

    assert ratings.user_ids.tolist() == ["ann"]
    assert ratings.item_ids.tolist() == ["tea"]
    assert ratings.values.tolist() == [4.5]


def test_movielens_columns_with_a_mapping_are_a_plain_csv(write_ratings):
    path = write_ratings("movielens-20m") / "ratings.csv"
    columns = ColumnMapping(user="userId", item="movieId", rating="rating")

    ratings = load_ratings(path, columns=columns, rating_range=(1, 5))

    assert_is_the_five_ratings(ratings)
    assert ratings.titles is None


@pytest.mark.parametrize(("largest", "expected"), [("3952", (1.0, 5.0)), ("65133", (0.5, 5.0))])
def test_dat_files_without_a_telling_name_are_told_apart_by_the_catalogue(largest, expected, tmp_path):
    (tmp_path / "ratings.dat").write_text("1::1::4::0\n")
    (tmp_path / "movies.dat").write_text(f"1::One::Drama\n{largest}::Last::Drama\n")

    assert load_ratings(tmp_path).rating_range == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_ids_may_be_text_of_any_arrow_type(kind, tmp_path):
    table = pa.table(
        {
            "user": pa.array(["b", "a"]).cast(kind),
            "item": pa.array(["x", "x"]).cast(kind),
            "rating": pa.array([1, 5], pa.int8()),
        }
    )
    parquet.write_table(table, tmp_path / "text.parquet")

    ratings = load_ratings(tmp_path / "text.parquet", rating_range=(1, 5))

    assert ratings.user_ids.tolist() == ["a", "b"]
    assert ratings.values.tolist() == [5, 1]


def test_listed_catalogue_numbers_items_that_nobody_rated(write_ratings):
    ratings = load_ratings(write_ratings("movielens-1m"), catalogue="listed")

    assert ratings.item_ids.tolist() == ["9", "10", "11"]
    assert ratings.titles == ("Amélie (2001)", "Heat, the (1995)", "Never Rated (1990)")
    assert_array_equal(ratings.items, [0, 1, 1, 0, 1])


def test_titles_file_of_a_generic_format_is_the_catalogue(write_ratings, tmp_path):
    titles = tmp_path / "names.csv"
    titles.write_text("item,title\n10,Ten\n9,\n")

    ratings = load_ratings(write_ratings("parquet"), rating_range=(1, 5), titles=titles)

    assert ratings.titles == ("item 9", "Ten"), "an empty title is replaced by the id"


def test_npz_keeps_its_numbers_and_its_own_test_part(tmp_path):
    path = tmp_path / "parts.npz"
    np.savez(
        path,
        user=[2, 0],
        item=[1, 0],
        rating=[5.0, 1.0],
        test_user=[3, 0],
        test_item=[1, 1],
        test_rating=[2.0, 4.0],
        item_id=[70, 60, 50],
    )

    ratings = load_ratings(path)

    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == (4, 3, 2)
    assert ratings.rating_range == (1.0, 5.0)
    assert ratings.item_ids.tolist() == ["70", "60", "50"]
    assert ratings.test is not None
    assert ratings.test.users.tolist() == [0, 3]
    assert ratings.test.values.tolist() == [4.0, 2.0]


def test_private_values_do_not_show_in_the_representation(write_ratings):
    ratings = load_ratings(write_ratings("csv"), rating_range=(1, 5))

    assert "u1" not in repr(ratings)
    assert "array" not in repr(ratings)
