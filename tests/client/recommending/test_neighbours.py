import re
from collections.abc import Callable

import pytest

from fedboard.client.recommending.catalogue_search import ItemIndex, describe
from fedboard.client.recommending.recommend import nearest_items
from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import InputError


def test_neighbours_are_ordered_by_cosine_without_unlearnt_items(board: Board) -> None:
    found = nearest_items(board, 0, k=10)

    assert [neighbour.item for neighbour in found] == [1, 4, 3, 2]
    assert found[0].cosine == pytest.approx(0.9 / (0.82**0.5))
    assert found[-1].cosine == -1.0


def test_the_number_of_neighbours_is_kept_to(board: Board) -> None:
    assert len(nearest_items(board, 0, k=2)) == 2
    with pytest.raises(InputError, match="k must be >= 1"):
        nearest_items(board, 0, k=0)


def test_an_item_that_is_not_learnt_has_no_neighbours(board: Board) -> None:
    with pytest.raises(InputError, match="item '15' is not among those that this board has learnt"):
        nearest_items(board, 5, k=1)


@pytest.mark.parametrize(("text", "number"), [("13", 3), ("AMÉLIE (2001)", 3), ("amél", 3), ("Aliens", 5)])
def test_items_are_found_by_id_title_or_part_of_one_title(board: Board, text: str, number: int) -> None:
    assert ItemIndex(board.catalogue).find_part(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Alien", "is in 2 titles: Alien (1979) [14]; Aliens (1986) [15]; give more of it, or the id"),
        ("Ran (1985)", "is in 2 titles: Ran (1985) [11]; Ran (1985) [12]"),
        ("Casablanca", "'Casablanca' is not in the board's catalogue"),
        ("", "is not in the board's catalogue"),
    ],
)
def test_what_fits_no_item_or_several_is_refused(board: Board, text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        ItemIndex(board.catalogue).find_part(text)


def test_a_catalogue_without_titles_goes_by_ids(make_board: Callable[..., Board]) -> None:
    catalogue: Catalogue = make_board(titles=False).catalogue

    assert ItemIndex(catalogue).find("14") == 4
    assert describe(catalogue, 4) == "14"
    with pytest.raises(InputError, match="not in the board's catalogue"):
        ItemIndex(catalogue).find("Alien (1979)")
