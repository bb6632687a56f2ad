"""Layouts of published data sets, in a few lines each: told by their looks, read with their public range."""

import re
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.datasets import ColumnMapping, Ratings, load_ratings
from fedboard.simulations.datasets.readers import find_source

AMAZON = {
    "amazon-2014": ("{user},{item},{rating}.0,{time}\n", ""),
    "amazon-2018": ("{item},{user},{rating}.0,{time}\n", ""),
    "amazon-2023": ("{user},{item},{rating}.0,{time}000\n", "user_id,parent_asin,rating,timestamp\n"),
}
"""Line and header line of each."""
BOOK, TOY = "0001713353", "B00005N5PF"
GIVEN = (("A3478QRKQDOPQ2", TOY, 2, 5), ("A1A2A3A4A5", BOOK, 4, 7), ("A3478QRKQDOPQ2", BOOK, 5, 9))


def contents(ratings: Ratings) -> dict[tuple[str, str], float]:
    rows = zip(ratings.users, ratings.items, ratings.values, strict=True)
    return {(str(ratings.user_ids[u]), str(ratings.item_ids[i])): float(value) for u, i, value in rows}


def amazon(folder: Path, name: str, given=GIVEN) -> Path:
    line, header = AMAZON[name]
    rows = (dict(zip(("user", "item", "rating", "time"), row, strict=True)) for row in given)
    path = folder / "Books.csv"
    path.write_text(header + "".join(line.format(**row) for row in rows))
    return path


@pytest.mark.parametrize("name", AMAZON)
def test_an_amazon_file_of_each_year_is_told_and_read(name, tmp_path):
    path = amazon(tmp_path, name)

    assert find_source(path, None, mapped=False).reader.name == name
    for ratings in (load_ratings(path), load_ratings(path, format=name)):
        assert contents(ratings) == {(user, item): rating for user, item, rating, _ in GIVEN}
        assert ratings.rating_range == (1.0, 5.0)


def test_history_columns_of_amazon_are_left_unread(tmp_path):
    path = tmp_path / "Books.train.csv"
    path.write_text(
        f"user_id,parent_asin,rating,timestamp,history\nAB,{TOY},4.0,3,\nAB,{BOOK},1.0,9,{TOY} {TOY}\n"
    )

    assert contents(load_ratings(path)) == {("AB", TOY): 4.0, ("AB", BOOK): 1.0}


@pytest.mark.parametrize("name", AMAZON)
@pytest.mark.parametrize("turned", [False, True])
def test_of_repeated_amazon_ratings_the_latest_counts_in_any_order(name, turned, tmp_path):
    user = "A3478QRKQDOPQ2"
    others = [("A1A2A3A4A5", TOY, 3, 1), (user, BOOK, 2, 4)]
    given = [*GIVEN, *others, (user, TOY, 3, 6), (user, TOY, 1, 6), (user, TOY, 5, 1)]

    ratings = load_ratings(amazon(tmp_path, name, given[::-1] if turned else given))

    assert contents(ratings) == {
        (user, TOY): 3.0,
        (user, BOOK): 5.0,
        ("A1A2A3A4A5", BOOK): 4.0,
        ("A1A2A3A4A5", TOY): 3.0,
    }


AMAZON_FAULTS = [
    ("A1A2A3A4A5,B00005N5PF,6.0,1", "rating 6 is outside the public rating range 1 to 5"),
    ("A1A2A3A4A5,B00005N5PF,good,1", "rating 'good' is not a number"),
    ("A1A2A3A4A5,B00005N5PF,,1", "the rating is empty"),
    (",B00005N5PF,3.0,1", "the user id is empty"),
    ("A1A2A3A4A5,B00005N5PF,3.0,June", "the timestamp is not a whole number"),
    ("A1A2A3A4A5,B00005N5PF,3.0,9223372036854775808", "the timestamp is not a whole number"),
    ("A1A2A3A4A5,B00005N5PF,3.0", "3 columns where 4 are expected"),
]


@pytest.mark.parametrize(("line", "expected"), AMAZON_FAULTS)
def test_a_faulty_amazon_line_is_named(line, expected, tmp_path):
    path = amazon(tmp_path, "amazon-2014")
    with path.open("a") as stream:
        stream.write(f"{line}\n")

    with pytest.raises(InputError, match=f"Books.csv, line 4: {re.escape(expected)}") as caught:
        load_ratings(path)
    assert "\n" not in str(caught.value)


def test_a_plain_table_with_a_repeated_pair_is_still_refused(tmp_path):
    path = amazon(tmp_path, "amazon-2023", [*GIVEN, GIVEN[0]])
    columns = {"user": "user_id", "item": "parent_asin", "rating": "rating"}

    with pytest.raises(InputError, match="has already rated item"):
        load_ratings(path, columns=ColumnMapping(**columns), rating_range=(1, 5))
