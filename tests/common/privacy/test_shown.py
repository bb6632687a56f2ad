"""What people read has five digits and never promises more than what is stated."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.privacy.shown import shown_number, shown_sentence


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_shown_number_is_never_smaller_and_off_by_one_in_the_fifth_digit_at_most(value: float) -> None:
    shown = Decimal(shown_number(value))

    assert Decimal(repr(value)) <= shown <= Decimal(repr(value)) * Decimal("1.0001")
    assert len(shown.normalize().as_tuple().digits) <= 5


@pytest.mark.parametrize(
    ("value", "shown"),
    [(5.0, "5"), (4.9999999, "5"), (1.00001, "1.0001"), (1e-5, "1e-05"), (0.95133543, "0.95134"), (0.0, "0")],
)
def test_a_number_that_is_short_stays_as_it_is(value: float, shown: str) -> None:
    assert shown_number(value) == shown
    assert shown_number(float("inf")) == "inf"


def test_only_long_fractions_of_a_sentence_are_shortened() -> None:
    told = "fedboard 0.1.23456789: 4096 of 1234567 cost (0.99999912, 1e-05), exactly 16.123456-GDP; 1.2345678e-07."

    assert shown_sentence(told) == (
        "fedboard 0.1.23456789: 4096 of 1234567 cost (1, 1e-05), exactly 16.124-GDP; 1.2346e-07."
    )
