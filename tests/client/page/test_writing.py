"""What a page's policy may hold, and what is filled into its text."""

import pytest

from fedboard.client.page.boards import HeldBoard, directions
from fedboard.client.page.writing import page_of
from fedboard.common.errors import InputError
from tests.common.boards.boards import chain


@pytest.mark.parametrize(
    "place",
    [
        "https://boards.example.org; script-src *",
        "https://somebody:secret@boards.example.org",
        "https://boards.example.org'",
        "https://*",
        'https://a"><script>',
    ],
)
def test_an_address_cannot_widen_the_policy(place: str) -> None:
    held = HeldBoard(board=chain(1)[0], label="films", file=b"", address=f"{place}/files/0")

    with pytest.raises(InputError, match="a host and a port alone"):
        page_of([held], chosen=0, key=None)


@pytest.mark.parametrize(
    "place", ["https://boards.example.org", "http://127.0.0.1:8080", "https://[::1]:8443"]
)
def test_a_page_that_fetches_may_connect_to_that_origin_alone(place: str) -> None:
    held = HeldBoard(board=chain(1)[0], label="films", file=b"", address=f"{place}/there/files/0")

    assert f"connect-src {place}; img-src data:; base-uri 'none'" in page_of([held], chosen=0, key=None)


def test_a_name_is_no_slot_and_no_markup() -> None:
    board = chain(1)[0]
    held = HeldBoard(board=board, label="{{script}}<b>&", file=board.to_bytes())

    page = page_of([held], chosen=0, key=None)

    assert page.count("{{script}}&lt;b&gt;&amp;") == 2
    assert "<b>&" not in page


def test_the_map_is_along_the_directions_of_most_spread() -> None:
    board = chain(1)[0]
    factors = board.arrays["item_factors"].astype(float)
    found = directions(board)
    centred = factors - factors.mean(axis=0)

    spreads = [((centred @ row) ** 2).sum() for row in found["basis"]]

    assert spreads[0] >= spreads[1]
    total = (centred**2).sum()
    assert sum(spreads) > total * 2 / factors.shape[1]
    assert found == directions(board)
