"""RecBole's atomic files, in a few lines."""

import re
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.datasets import load_ratings
from fedboard.simulations.datasets.readers import find_source

HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\tgenre:token_seq\n"
LINES = 'ann\t9\t3.5\t978300760\tA "b\nbob\t10\t1\t978302109.0\t\nann\t10\t5\t0\tC D\n'


@pytest.mark.parametrize("as_folder", [False, True])
def test_ratings_are_read_with_a_declared_range(as_folder, tmp_path):
    path = tmp_path / "tiny.inter"
    path.write_text(HEADER + LINES)
    (tmp_path / "tiny.item").write_text("item_id:token\n9\n10\n")
    source = tmp_path if as_folder else path

    assert find_source(source, None, mapped=False).reader.name == "recbole"
    ratings = load_ratings(source, rating_range=(0, 5))

    assert ratings.user_ids.tolist() == ["ann", "bob"]
    assert ratings.item_ids.tolist() == ["9", "10"]
    assert (ratings.users.tolist(), ratings.items.tolist()) == ([0, 0, 1], [0, 1, 1])
    assert ratings.values.tolist() == [3.5, 5.0, 1.0]


FAULTS = [
    (HEADER.replace("rating:float", "label:float") + LINES, "line 1: there is no column 'rating:float'"),
    (HEADER, "has a header but no ratings"),
    (HEADER + LINES + "bob\t9\t\t1\t\n", "line 5: the rating is empty"),
    (HEADER + LINES + "bob\t9\tgood\t1\t\n", "line 5: rating 'good' is not a number"),
    (HEADER + LINES + "bob\t9\t6\t1\t\n", "line 5: rating 6 is outside the public rating range 0 to 5"),
    (HEADER + LINES + "\t9\t3\t1\t\n", "line 5: the user id is empty"),
    (HEADER + LINES + "bob\t9\t3\n", "line 5: 3 columns where 5 are expected"),
    (HEADER + LINES + "ann\t9\t3\t1\t\n", "line 5: user ann has already rated item 9"),
]


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_what_is_broken_is_named(text, expected, tmp_path):
    (tmp_path / "tiny.inter").write_text(text)

    with pytest.raises(InputError, match=rf"tiny\.inter.*{re.escape(expected)}") as caught:
        load_ratings(tmp_path, rating_range=(0, 5))
    assert "\n" not in str(caught.value)


def test_of_several_files_one_must_be_named(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"tiny.{part}.inter").write_text(HEADER + LINES)

    with pytest.raises(InputError, match=r"one of several \(tiny.test.inter, tiny.train.inter\)"):
        load_ratings(tmp_path, rating_range=(0, 5))
    assert load_ratings(tmp_path / "tiny.train.inter", rating_range=(0, 5)).n_ratings == 3


ITEMS = (
    "item_id:token\tmovie_title:token_seq\trelease_year:token\n"
    '10\tHeat "1"\t1995\n9\tAmélie\t2001\n7\tNobody\'s\t1\n'
)


def with_items(folder: Path, items: str) -> Path:
    (folder / "tiny.inter").write_text(HEADER + LINES)
    (folder / "tiny.item").write_text(items, encoding="utf-8")
    return folder


@pytest.mark.parametrize("catalogue", ["rated", "listed"])
def test_titles_are_read_from_the_item_file_beside(catalogue, tmp_path):
    ratings = load_ratings(with_items(tmp_path, ITEMS), rating_range=(0, 5), catalogue=catalogue)

    known = dict(zip(ratings.item_ids.tolist(), ratings.titles, strict=True))
    assert (known["9"], known["10"]) == ("Amélie", 'Heat "1"')
    assert ("7" in known) is (catalogue == "listed")


def test_a_broken_item_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"tiny\.item, line 5: 1 fields where 3 are expected"):
        load_ratings(with_items(tmp_path, ITEMS + "8\n"), rating_range=(0, 5))
