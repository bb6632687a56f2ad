import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fedboard.client.ratings.own_file import read_own_ratings
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


def test_columns_may_stand_in_any_order_beside_others(board: Board, write_csv: Write) -> None:
    path = write_csv("when,Rating,Item\nmonday,3,13\n")

    own = read_own_ratings(path, board.catalogue, rating_range=STARS)

    assert own.items.tolist() == [3]
    assert own.ratings.tolist() == [3.0]


def test_a_byte_order_mark_is_not_part_of_the_header(board: Board, write_csv: Write) -> None:
    own = read_own_ratings(write_csv("\ufeffitem,rating\n10,3\n"), board.catalogue, rating_range=STARS)

    assert own.items.tolist() == [0]


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
