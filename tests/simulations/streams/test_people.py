"""Made-up people are a stream: their exact sums are those of the same people held in memory."""

import numpy as np
import pytest

from fedboard.simulations.config import DataConfig
from fedboard.simulations.data.stream import HeldStream, UserStream
from fedboard.simulations.data.synthetic.people import PeopleConfig, PeopleStream, open_people
from fedboard.simulations.problem import load_data
from fedboard.simulations.streams.spans import blocks_of

SOURCE = "synthetic:users=200,items=60,mean=8"


@pytest.mark.parametrize("most", [1, 50, 10_000])
def test_blocks_are_those_of_the_same_people_in_memory(most: int) -> None:
    people: UserStream = open_people(SOURCE)
    memory = HeldStream.of_ratings(load_data(DataConfig(source=SOURCE)))

    for made, held in zip(blocks_of(people, 30, 170, most), blocks_of(memory, 30, 170, most), strict=True):
        for array in ("indptr", "items", "ratings", "keys"):
            assert np.array_equal(getattr(made, array), getattr(held, array)), array
        assert made.first_row == held.first_row


def test_whatever_decides_about_ratings_is_in_the_identity() -> None:
    known = {
        PeopleStream(config=PeopleConfig(**one)).identity
        for one in ({}, {"users": 5}, {"items": 50, "mean": 5}, {"mean": 9}, {"minimum": 3}, {"seed": 1})
    }

    assert len(known) == 6
    assert PeopleStream(config=PeopleConfig()).identity in known
