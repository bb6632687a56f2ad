import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.common.errors import InputError
from fedboard.simulations.datasets import ColumnMapping, SyntheticConfig, load_ratings

STARS = "userId,movieId,rating,timestamp\n"
PLAIN = "user,item,rating\n"

TEXT_FAULTS = [
    # file, content, what the message says
    ("ratings.csv", "", "is empty"),
    ("ratings.csv", STARS, "has a header but no ratings"),
    ("ratings.csv", STARS + "1,2,3,0\n1,3,good,0\n", "line 3: rating 'good' is not a number"),
    ("ratings.csv", STARS + "1,2,,0\n", "line 2: the rating is empty"),
    ("ratings.csv", STARS + "1,2,3,0\n\n1,3,nan,0\n", "line 4: the rating is NaN; ratings must be 0.5 to 5"),
    (
        "ratings.csv",
        STARS + "1,2,3,0\n1,3,6,0\n",
        "line 3: rating 6 is outside the public rating range 0.5 to 5",
    ),
    ("ratings.csv", STARS + "1,2,inf,0\n", "line 2: rating inf is outside"),
    ("ratings.csv", STARS + "1,2,3,0\n2,2,4,0\n1,2,4,0\n", "line 4: user 1 has already rated item 2"),
    ("ratings.csv", STARS + "ann,2,3,0\n", "line 2: user id 'ann' is not a whole number"),
    ("ratings.csv", STARS + "1,,3,0\n", "line 2: the item id is empty"),
    ("ratings.csv", STARS + "1,9999999999,3,0\n", "line 2: item id '9999999999' is not a whole number up to"),
    ("ratings.csv", STARS + "1,2,3,0\n1,3,3\n", "line 3: 3 columns where 4 are expected"),
    (
        "ratings.dat",
        "1::2::3::0\n1::3::0.5::0\n",
        "line 2: rating 0.5 is outside the public rating range 1 to 5",
    ),
    ("ratings.dat", "1::2::3::0\n1::2::3::0\n", "line 2: user 1 has already rated item 2"),
    ("ratings.dat", "1::2::3::0\n1::3::x::0\n", "line 2: rating 'x' is not a number"),
    ("ratings.dat", "1::2::3::0\n1::3::::0\n", "line 2: the rating is empty"),
    ("ratings.dat", "1::2::3::0\n1:x:3::3::0\n", "line 2: 3 columns where 4 are expected"),
    ("u.data", "1\t2\t3\t0\n1\t3\t0\t0\n", "line 2: rating 0 is outside the public rating range 1 to 5"),
    ("u.data", "1\t2\t3\t0\n1\t3\n", "line 2: 2 columns where 4 are expected"),
    ("any.csv", PLAIN, "has a header but no ratings"),
    (
        "any.csv",
        "user,thing,rating\na,b,3\n",
        "line 1: there is no column 'item' for the item, only user, thing",
    ),
    ("any.csv", "user,item,rating,item\na,b,3,c\n", "line 1: the column 'item' occurs more than once"),
    ("any.csv", PLAIN + "a,b,3\n,b,3\n", "line 3: the user id is empty"),
    ("any.csv", PLAIN + 'a,"b\nc",3\nd,e,9\n', "line 4: rating 9 is outside the public rating range 1 to 5"),
    ("any.csv", PLAIN + "a,b,3\na,b,3\n", "line 3: user a has already rated item b"),
    ("any.tsv", "user\titem\trating\na\tb\n", "line 2: 2 columns where 3 are expected"),
]


def assert_one_clear_sentence(message: str) -> None:
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(("name", "content", "expected"), TEXT_FAULTS)
def test_faulty_text_names_file_line_and_rule(name, content, expected, tmp_path):
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / name).write_text(content)
    declared = (1, 5) if name.startswith("any") else None

    with pytest.raises(InputError) as caught:
        load_ratings(folder / name, rating_range=declared, format="movielens-20m" if content == "" else None)

    assert f"{folder / name}" in str(caught.value)
    assert expected in str(caught.value)
    assert_one_clear_sentence(str(caught.value))


def test_text_that_is_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "any.csv"
    path.write_bytes(PLAIN.encode() + b"a,b,3\nm\xfcller,b,3\n")

    with pytest.raises(InputError, match=r"line 3: the user id is not UTF-8 text"):
        load_ratings(path, rating_range=(1, 5))


def test_fault_inside_a_zip_archive_names_archive_member_and_line(write_ratings, zip_folder):
    folder = write_ratings("movielens-20m")
    with (folder / "ratings.csv").open("a") as stream:
        stream.write("3,10,5,0\n")
    archive = zip_folder(folder)

    with pytest.raises(InputError, match=r"ml-20m\.zip \(ml-20m/ratings\.csv\), line 7: user 3 has already"):
        load_ratings(archive)


def test_item_that_the_catalogue_does_not_list_is_unknown(write_ratings):
    folder = write_ratings("movielens-1m")
    with (folder / "ratings.dat").open("a") as stream:
        stream.write("1::12::5::0\n")

    with pytest.raises(
        InputError, match=r"ratings\.dat, line 6: unknown item id '12'; every item must be in"
    ):
        load_ratings(folder)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "lists no items"),
        ("item,title\n", "lists no items"),
        ("item,name\n9,Nine\n", "line 1: there is no column 'title', only item, name"),
        ("item,title\n9,Nine\n10\n", "line 3: no title column"),
    ],
)
def test_faulty_file_of_titles_is_named(content, expected, write_ratings, tmp_path):
    titles = tmp_path / "titles.csv"
    titles.write_text(content)

    with pytest.raises(InputError, match=expected) as caught:
        load_ratings(write_ratings("csv"), rating_range=(1, 5), titles=titles)

    assert str(titles) in str(caught.value)


def test_file_of_titles_in_the_wrong_encoding_is_named(write_ratings, tmp_path):
    titles = tmp_path / "titles.csv"
    titles.write_bytes("item,title\n9,Amélie\n".encode("latin-1"))

    with pytest.raises(InputError, match="is not text in utf-8"):
        load_ratings(write_ratings("csv"), rating_range=(1, 5), titles=titles)


PARQUET_FAULTS = [
    ({"user": [1], "item": [1]}, "there is no column 'rating' for the rating, only user, item"),
    ({"user": [1, 1], "item": [1, 2], "rating": [3, 6]}, "row 2: rating 6 is outside"),
    ({"user": [1, 1], "item": [1, 2], "rating": [3, None]}, "row 2: 'rating' is empty"),
    ({"user": [1, None], "item": [1, 2], "rating": [3, 3]}, "row 2: 'user' is empty"),
    ({"user": [1, 1], "item": [1, 2], "rating": [3.0, np.nan]}, "row 2: the rating is NaN"),
    ({"user": [1, 2, 1], "item": [1, 1, 1], "rating": [3, 3, 3]}, "row 3: user 1 has already rated item 1"),
    ({"user": [1.5], "item": [1], "rating": [3]}, "the ids in 'user' are double; they must be whole numbers"),
    ({"user": [1], "item": [1], "rating": ["good"]}, "the ratings in 'rating' are string, not numbers"),
]


@pytest.mark.parametrize(("columns", "expected"), PARQUET_FAULTS)
def test_faulty_parquet_names_file_row_and_rule(columns, expected, tmp_path):
    path = tmp_path / "any.parquet"
    parquet.write_table(pa.table(columns), path)

    with pytest.raises(InputError) as caught:
        load_ratings(path, rating_range=(1, 5))

    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert_one_clear_sentence(str(caught.value))


def test_parquet_without_rows_is_refused(tmp_path):
    empty = pa.table(
        {
            "user": pa.array([], pa.int64()),
            "item": pa.array([], pa.int64()),
            "rating": pa.array([], pa.float32()),
        }
    )
    parquet.write_table(empty, tmp_path / "any.parquet")

    with pytest.raises(InputError, match="has columns but no ratings"):
        load_ratings(tmp_path / "any.parquet", rating_range=(1, 5))


NPZ_FAULTS = [
    ({"item_id": None}, "there is no array 'item_id'"),
    ({"test_user": [0]}, "there is no array 'test_item'"),
    ({"rating": [3.0]}, "differ in length"),
    ({"user": [], "item": [], "rating": []}, "is empty"),
    ({"user": [0.5, 1.0]}, "the array 'user' must be one column of numbers"),
    (
        {"rating": [3.0, 6.0]},
        "row 2 of user, item, rating: rating 6 is outside the public rating range 1 to 5",
    ),
    ({"rating": [np.nan, 1.0]}, "row 1 of user, item, rating: the rating is NaN"),
    ({"item": [0, 2]}, "row 2 of user, item, rating: unknown item number 2; it must be 0 to 1"),
    ({"user": [0, -1]}, "row 2 of user, item, rating: unknown user number -1"),
    ({"user": [0, 0], "item": [1, 1]}, "row 2 of user, item, rating: user 0 has already rated item 1"),
    (
        {"test_user": [0], "test_item": [1], "test_rating": [9.0]},
        "row 1 of test_user, test_item, test_rating",
    ),
    (
        {"test_user": [0], "test_item": [0], "test_rating": [3.0]},
        "user 0 and item 0 are in the training and in the test part",
    ),
]


@pytest.mark.parametrize(("changes", "expected"), NPZ_FAULTS)
def test_faulty_npz_names_file_row_and_rule(changes, expected, tmp_path):
    path = tmp_path / "any.npz"
    arrays = {"user": [0, 1], "item": [0, 1], "rating": [3.0, 4.0], "item_id": [7, 8]} | changes
    np.savez(path, **{name: np.array(value) for name, value in arrays.items() if value is not None})

    with pytest.raises(InputError) as caught:
        load_ratings(path)

    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert_one_clear_sentence(str(caught.value))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("broken.zip", b"PK\x03\x04 and then nothing", "is a broken zip archive"),
        ("broken.zip", b"", "is a broken zip archive"),
        ("broken.npz", b"not an archive", "is not a readable npz file"),
        ("broken.parquet", b"PAR1 and then nothing", "is not a readable Parquet file"),
        ("broken.parquet", b"", "is not a readable Parquet file"),
        ("unknown.xyz", b"what is this?", "the format is not recognised; name it, one of movielens-100k,"),
        ("ratings.dat", b"1::2::3::0\n", "name the format movielens-1m or movielens-10m"),
    ],
)
def test_unusable_file_is_named(name, content, expected, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(InputError, match=expected) as caught:
        load_ratings(path, rating_range=None if name == "ratings.dat" else (1, 5))

    assert str(path) in str(caught.value)
    assert_one_clear_sentence(str(caught.value))


def test_damaged_member_of_a_zip_archive_is_named(write_ratings, zip_folder):
    archive = zip_folder(write_ratings("movielens-20m"))
    with zipfile.ZipFile(archive) as opened:
        start = opened.getinfo("ml-20m/ratings.csv").header_offset + 30 + len("ml-20m/ratings.csv")
    content = bytearray(archive.read_bytes())
    content[start + 5 : start + 25] = b"\xff" * 20
    archive.write_bytes(content)

    with pytest.raises(InputError, match="is a broken zip archive"):
        load_ratings(archive)


def test_missing_pyarrow_says_what_to_install(write_ratings, monkeypatch):
    monkeypatch.setattr("fedboard.simulations.datasets.loading.find_spec", lambda name: None)

    with pytest.raises(InputError, match=r"needs pyarrow; pip install '\.\[sim\]'"):
        load_ratings(write_ratings("movielens-1m"))


def test_missing_path_is_named(tmp_path):
    with pytest.raises(InputError, match="does not exist; give a file, a folder or a zip archive"):
        load_ratings(tmp_path / "nowhere.csv")


def test_folder_without_ratings_says_what_was_looked_for(tmp_path):
    with pytest.raises(InputError, match=r"holds none of u\.data, ratings\.dat, ratings\.csv"):
        load_ratings(tmp_path)


def test_unknown_format_name_lists_the_known_ones(write_ratings):
    with pytest.raises(InputError, match="unknown format 'excel'; use one of movielens-100k"):
        load_ratings(write_ratings("csv"), format="excel")


@pytest.mark.parametrize("name", ["csv", "tsv", "parquet"])
def test_generic_formats_must_be_told_the_rating_range(name, write_ratings):
    with pytest.raises(InputError, match="the rating range of this format is not known; declare it"):
        load_ratings(write_ratings(name))


@pytest.mark.parametrize("scale", [(5, 1), (1, 1), (1,), 5, (1, float("inf")), (float("nan"), 5), ("a", "b")])
def test_rating_range_must_be_two_ascending_numbers(scale, write_ratings):
    with pytest.raises(InputError, match="the rating range must be two numbers, the lower first"):
        load_ratings(write_ratings("csv"), rating_range=scale)


def test_column_mapping_must_name_three_different_columns(write_ratings):
    columns = ColumnMapping(user="user", item="user", rating="rating")

    with pytest.raises(InputError, match="the columns for user, item and rating must differ"):
        load_ratings(write_ratings("csv"), rating_range=(1, 5), columns=columns)


def test_listed_catalogue_needs_a_list(write_ratings):
    with pytest.raises(InputError, match="there is no list of items; give a file of titles"):
        load_ratings(write_ratings("csv"), rating_range=(1, 5), catalogue="listed")


@pytest.mark.parametrize(
    "field", ["n_users", "n_items", "mean_ratings_per_user", "minimum_ratings_per_user", "seed"]
)
def test_synthetic_sizes_out_of_range_are_refused(field):
    with pytest.raises(InputError, match=f"{field} must be"):
        SyntheticConfig(**{field: -1})
