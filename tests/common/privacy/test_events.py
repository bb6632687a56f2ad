"""What an event may state about who takes part: anything doubtful is refused, never accounted as something else.

What people read has five digits and never promises more than what is stated.
"""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import event_problems, is_amplified, require_sound
from fedboard.common.privacy.shown import shown_number, shown_sentence
from tests.common.privacy.exact_curves import gaussian, laplace

POISSON = {"kind": "poisson", "probability": 0.25, "round": "round-1"}
FIXED = {"kind": "fixed-size", "size": 500, "round": "round-1"}
COHORTS = {"kind": "shuffled-cohorts", "cohorts": 4, "round": "round-1"}


@pytest.mark.parametrize("stated", [POISSON, FIXED, COHORTS], ids=lambda stated: stated["kind"])
def test_each_way_of_taking_part_can_be_stated(stated: dict[str, Any]) -> None:
    event = gaussian(4.0, participation=stated, adjacency="add-remove" if stated is POISSON else "replace")

    assert event_problems(event) == []
    assert is_amplified(event) is (stated is POISSON)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (None, "must state its kind"),
        ("poisson", "must state its kind"),
        ([], "must state its kind"),
        ({"round": "round-1"}, "must state its kind"),
        ({**POISSON, "kind": "poison"}, "must state its kind"),
        ({**POISSON, "kind": ["poisson"]}, "must state its kind"),
        ({**POISSON, "probability": 0.0}, "probability must be a number in"),
        ({**POISSON, "probability": 1.0}, "probability must be a number in"),
        ({**POISSON, "probability": 1}, "probability must be a number in"),
        ({**POISSON, "probability": -0.1}, "probability must be a number in"),
        ({**POISSON, "probability": float("nan")}, "probability must be a number in"),
        ({**POISSON, "probability": "0.1"}, "probability must be a number in"),
        ({**POISSON, "probability": True}, "probability must be a number in"),
        ({"kind": "poisson", "round": "round-1"}, "probability must be a number in"),
        ({"kind": "poisson", "probability": 0.1}, "round must be a non-empty string"),
        ({**POISSON, "round": " "}, "round must be a non-empty string"),
        ({**POISSON, "round": 3}, "round must be a non-empty string"),
        ({**POISSON, "size": 3}, "unknown fields: size"),
        ({**FIXED, "size": 0}, "size must be an int > 0"),
        ({**FIXED, "size": 2.5}, "size must be an int > 0"),
        ({**COHORTS, "cohorts": True}, "cohorts must be an int > 0"),
        ({**FIXED, "size": 1 << 63}, "size must be an int > 0 and < 2"),
        ({**COHORTS, "probability": 0.1}, "unknown fields: probability"),
    ],
)
def test_a_doubtful_statement_is_refused(changed: object, message: str) -> None:
    event = gaussian(4.0, participation=changed)

    with pytest.raises(PrivacyError, match=message):
        require_sound(event)


@pytest.mark.parametrize("event", [gaussian(4.0), laplace(4.0)], ids=lambda event: event["mechanism"])
def test_numbers_that_no_float_holds_are_refused_in_a_sentence(event: dict[str, Any]) -> None:
    for field in sorted(event):
        with pytest.raises(PrivacyError, match=field):
            require_sound({**event, field: 10**400})

    with pytest.raises(PrivacyError, match="must be inf"):  # each is a float, their product is not
        require_sound({**laplace(4.0), "noise_multiplier": 10**200, "l1_sensitivity": 10**200})


def test_amplification_is_refused_where_it_is_not_accounted() -> None:
    with pytest.raises(PrivacyError, match="under adjacency add-remove only"):
        require_sound(gaussian(4.0, adjacency="replace", participation=POISSON))
    with pytest.raises(PrivacyError, match="for gaussian only"):
        require_sound(laplace(4.0, participation=POISSON))


@pytest.mark.parametrize("stated", [FIXED, COHORTS], ids=lambda stated: stated["kind"])
def test_cohorts_are_accounted_under_replace_alone_whatever_the_noise(stated: dict[str, Any]) -> None:
    for noise in (gaussian, laplace):
        require_sound(noise(4.0, adjacency="replace", participation=stated))
        with pytest.raises(
            PrivacyError, match=f"{stated['kind']} is not accounted under adjacency add-remove"
        ):
            require_sound(noise(4.0, participation=stated))


def test_a_release_states_its_participation_in_its_event(make_release: Any) -> None:
    assert "participation" not in make_release().event()
    assert make_release(participation=POISSON).event()["participation"] == POISSON


@pytest.mark.parametrize("stated", [{}, "poisson", {**POISSON, "probability": 2.0}])
def test_a_release_with_a_doubtful_participation_cannot_be_made(make_release: Any, stated: object) -> None:
    with pytest.raises(PrivacyError, match="participation"):
        make_release(participation=stated)


def test_a_sampled_release_cannot_be_made_under_replace(make_release: Any) -> None:
    with pytest.raises(PrivacyError, match="add-remove only"):
        make_release(participation=POISSON, adjacency=Adjacency.REPLACE)


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
