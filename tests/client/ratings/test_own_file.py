"""A person's own ratings in a CSV file: read for a board, and from CSV to the store and back."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedboard.client.ratings.own_file import read_own_ratings, read_ratings, write_ratings
from fedboard.client.ratings.store import OwnRating
from fedboard.common.board import Board
from fedboard.common.errors import InputError

Write = Callable[[str], Path]
STARS = (1.0, 5.0)


def test_items_are_named_by_id_or_by_title(board: Board, write_csv: Write) -> None:
    path = write_csv('item,rating\n14,2\n"  heat (1995) ",4.5\n\n')

    own = read_own_ratings(path, board.catalogue, rating_range=STARS)

    assert own.items.tolist() == [0, 4]
    assert own.ratings.tolist() == [4.5, 2.0]
    assert own.n_users == 1


def test_implicit_feedback_needs_no_rating(board: Board, write_csv: Write) -> None:
    own = read_own_ratings(write_csv("item\n11\n10\n"), board.catalogue, rating_range=None)

    assert own.items.tolist() == [0, 1]
    assert own.ratings.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,rating\n10,3\n99,3\n", "line 3: '99' is not in the board's catalogue"),
        ("item,rating\nHet (1995),3\n", "did you mean Heat (1995) [10]"),
        (
            "item,rating\nRan (1985),3\n",
            "the title of several items: Ran (1985) [11]; Ran (1985) [12]; give the id",
        ),
        ("item,rating\n10,6\n", "line 2: a rating must be a number from 1 to 5, got '6'"),
        ("item,rating\n10,nan\n", "a rating must be a number from 1 to 5, got 'nan'"),
        ("item,rating\n10,good\n", "got 'good'"),
        ("item,rating\n10,3\nHeat (1995),4\n", "line 3: item 'Heat (1995)' is listed twice"),
        ("item,rating\n10\n", "line 2: item and rating are needed, got '10'"),
        ("film,stars\n10,3\n", "line 1: the header must name the columns item,rating, got 'film,stars'"),
        ("", "line 1: the header must name the columns item,rating"),
        ("item,rating\n", "no ratings in it"),
        ('item,rating\n"10,3\n', "not valid CSV"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(board: Board, write_csv: Write, text: str, message: str) -> None:
    path = write_csv(text)

    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_own_ratings(path, board.catalogue, rating_range=STARS)

    assert str(path) in str(caught.value)


def test_a_file_that_is_not_text_is_refused(board: Board, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(b"item,rating\nAm\xe9lie,3\n")

    with pytest.raises(InputError, match="not UTF-8"):
        read_own_ratings(tmp_path / "mine.csv", board.catalogue, rating_range=STARS)
    with pytest.raises(InputError, match="no ratings can be read there"):
        read_own_ratings(tmp_path / "missing.csv", board.catalogue, rating_range=STARS)


def test_a_line_with_more_columns_than_the_header_is_refused(board: Board, write_csv: Write) -> None:
    with pytest.raises(InputError, match="line 2: 3 columns where the header has 2"):
        read_own_ratings(write_csv("item,rating\n14,4,5\n"), board.catalogue, rating_range=STARS)


def test_items_that_are_not_on_the_board_are_skipped_where_that_is_asked_for(
    board: Board, write_csv: Write
) -> None:
    skipped: list[str] = []
    file = write_csv("item,rating\n10,3\n99,3\nRan (1985),2\n14,4\n")

    own = read_own_ratings(file, board.catalogue, rating_range=STARS, skipped=skipped)

    assert own.items.tolist() == [0, 4]
    assert [one.rpartition("mine.csv, ")[2][:6] for one in skipped] == ["line 3", "line 4"]
    with pytest.raises(
        InputError, match=r"none of its 1 ratings can be used with this board: .*line 2: '99'"
    ):
        read_own_ratings(write_csv("item,rating\n99,3\n"), board.catalogue, rating_range=STARS, skipped=[])


def test_with_a_board_items_are_named_by_id_or_title(board: Board, write_csv: Write) -> None:
    path = write_csv("item,rating,timestamp\n14,2,\nheat (1995),4.5,1700000000\n")

    assert read_ratings(path, board=board) == (
        OwnRating(item="14", rating=2.0),
        OwnRating(item="10", rating=4.5, rated_at=1700000000),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,rating\n10,3\n10,4\n", "line 3: item '10' is listed twice"),
        ("item,rating\n10,\n", "line 2: a rating must be a number"),
        ("item,rating\n10,inf\n", "line 2: a rating must be a finite number"),
        ("item,rating,timestamp\n10,3,monday\n", "line 2: a timestamp must be"),
        ("item,rating,timestamp\n10,3,-5\n", "line 2: a timestamp must be"),
        ("item,rating,timestamp\n10,3,99999999999999999999\n", "line 2: a timestamp must be"),
        ("item,rating\n,3\n", "line 2: an item id must be"),
        ("item,rating\n", "no ratings in it"),
        ("thing,rating\n10,3\n", "the header must name the columns item,rating"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(write_csv: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_ratings(write_csv(text))


def test_with_a_board_its_range_and_catalogue_count(board: Board, write_csv: Write) -> None:
    with pytest.raises(InputError, match="line 2: a rating must be a number from 1 to 5"):
        read_ratings(write_csv("item,rating\n10,9\n"), board=board)
    with pytest.raises(InputError, match="line 2: '99' is not in the board's catalogue"):
        read_ratings(write_csv("item,rating\n99,3\n"), board=board)
    with pytest.raises(InputError, match=r"line 3: item 'Heat .1995.' is listed twice"):
        read_ratings(write_csv("item,rating\n10,3\nHeat (1995),4\n"), board=board)


def test_titles_are_written_where_they_are_known(board: Board) -> None:
    stream = io.StringIO()
    write_ratings(stream, [OwnRating(item="13", rating=4.0), OwnRating(item="99", rating=0.1)], board=board)

    assert stream.getvalue() == "item,rating,timestamp,title\n13,4,,Amélie (2001)\n99,0.1,,\n"


def test_an_id_with_a_quote_in_front_stays_where_the_board_knows_it_and_no_other(
    make_board: Callable[..., Board], write_csv: Write
) -> None:
    board = make_board()
    ids = ("'-1", "=2", "'=2", *board.catalogue.item_ids[3:])
    named = replace(board, catalogue=replace(board.catalogue, item_ids=ids))
    path = write_csv("item,rating\n'-1,3\n'=2,4\n''=2,5\n")

    assert [one.item for one in read_ratings(path, board=named)] == ["'-1", "=2", "'=2"]
    own = read_own_ratings(path, named.catalogue, rating_range=(1.0, 5.0))
    assert dict(zip(own.items.tolist(), own.ratings.tolist(), strict=True)) == {0: 3.0, 1: 4.0, 2: 5.0}


ITEMS = ("=1+1", "+1", "-1", "@SUM(A1)", "'=1+1", "''-1", "'Round Midnight", "7", "a=b", "\uff1d1", "-")


def test_no_cell_is_a_formula_for_a_spreadsheet_and_items_come_back_as_they_were(
    make_board: Callable[..., Board], tmp_path: Path
) -> None:
    """Who typed an item, or who published its title, must not run anything where the file is opened."""
    board, path = make_board(), tmp_path / "out.csv"
    titles = ("=cmd|' /C calc'!A0", *(board.catalogue.titles or ())[1:])
    named = replace(board, catalogue=replace(board.catalogue, titles=titles))
    own = [OwnRating(item=item, rating=4.0) for item in (*ITEMS, board.catalogue.item_ids[0])]

    stream = io.StringIO()
    write_ratings(stream, own, board=named)
    path.write_text(stream.getvalue(), encoding="utf-8")

    cells = [cell for row in csv.reader(io.StringIO(stream.getvalue())) for cell in row]
    assert [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\uff1d")] == []
    assert [one.item for one in read_ratings(path)] == [one.item for one in own]
    assert "'=cmd|' /C calc'!A0" in cells
