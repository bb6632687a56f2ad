"""Who takes part: the draw has the probability that is accounted, and one object does both."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedboard.common.arrays import BoolArray
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FixedSizeCohort,
    FullParticipation,
    Participation,
    PoissonParticipation,
    ShuffledCohorts,
    require_unsampled,
    round_name,
    stated_by_release,
)
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from tests.common.releases import a_release

N_USERS = 200_000
NOISE: list[NoiseSource] = [SeededNoise(3), SecureNoise()]


def draw(participation: Participation, n_users: int, noise: NoiseSource, name: str) -> BoolArray | None:
    """All who take part at once."""
    present = participation.rows(n_users, noise, name)
    return None if present is None else present.rows(0, n_users)


def a_request(**changes: object) -> Request:
    release = a_release(name="counts", rows=3, width=1, l2_bound=4096, same_sign=True, noise_multiplier=2.0)
    return Request(source=SumSource.ITEM_COUNT, release=replace(release, **changes))


def an_attendance(participation: Participation) -> Attendance:
    return Attendance(participation=participation, name="round-1", noise=SeededNoise(0))


def deviations_off(present: "np.ndarray[tuple[int], np.dtype[np.bool_]]", probability: float) -> float:
    spread = np.sqrt(probability * (1 - probability) / present.size)
    return float(abs(present.mean() - probability) / spread)


@pytest.mark.parametrize("noise", NOISE, ids=["seeded", "secure"])
@pytest.mark.parametrize("probability", [0.001, 0.1, 0.5, 0.97])
def test_the_share_that_takes_part_is_the_accounted_probability(
    noise: NoiseSource, probability: float
) -> None:
    participation = PoissonParticipation(probability)
    stated = participation.event_field("round-1")["probability"]

    assert deviations_off(draw(participation, N_USERS, noise, "round-1"), stated) < 6  # 2e-9


def test_a_sampler_that_asks_a_tenth_more_users_than_it_states_shows() -> None:
    drawn = draw(PoissonParticipation(0.11), N_USERS, SeededNoise(3), "round-1")

    assert deviations_off(drawn, 0.1) > 6


@pytest.mark.parametrize("probability", [0.1, 1 / 3, 1e-3, float(np.nextafter(1.0, 0.0))])
def test_each_coin_is_an_exact_comparison_of_whole_numbers(probability: float) -> None:
    noise = SeededNoise(5)
    words = noise.stream("who takes part in round-2").bits(0, 2000)
    exact = [Fraction(int(word), 1 << 64) < Fraction(probability) for word in words]

    assert draw(PoissonParticipation(probability), 2000, noise, "round-2").tolist() == exact


def test_a_coin_depends_on_round_and_row_alone() -> None:
    participation, noise = PoissonParticipation(0.5), SeededNoise(1)

    all_users = draw(participation, 10_000, noise, "round-1")
    np.testing.assert_array_equal(draw(participation, 400, noise, "round-1"), all_users[:400])
    agree = float((draw(participation, 10_000, noise, "round-2") == all_users).mean())
    assert abs(agree - 0.5) < 0.03  # six deviations
    assert (draw(participation, 10_000, SecureNoise(), "round-1") != all_users).any()


def test_the_coins_are_not_the_noise_of_a_release() -> None:
    noise = SeededNoise(1)
    words = noise.stream("round-1").bits(0, 1000)

    assert (draw(PoissonParticipation(0.5), 1000, noise, "round-1") != (words < 1 << 63)).any()


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_probability_that_is_none_is_refused(probability: float) -> None:
    with pytest.raises(InputError, match=r"in \(0, 1\)"):
        PoissonParticipation(probability)


@pytest.mark.parametrize("noise", NOISE, ids=["seeded", "secure"])
def test_a_fixed_size_cohort_has_its_size_and_favours_nobody(noise: NoiseSource) -> None:
    drawn = np.array([draw(FixedSizeCohort(30), 100, noise, f"round-{t}") for t in range(1, 2001)])

    assert (drawn.sum(axis=1) == 30).all()
    assert abs(drawn.mean(axis=0) - 0.3).max() < 6 * np.sqrt(0.3 * 0.7 / 2000)


def test_a_cohort_larger_than_the_population_is_refused() -> None:
    assert draw(FixedSizeCohort(5), 5, SeededNoise(0), "round-1").all()
    with pytest.raises(InputError, match="fewer users"):
        draw(FixedSizeCohort(6), 5, SeededNoise(0), "round-1")


@pytest.mark.parametrize("noise", NOISE, ids=["seeded", "secure"])
def test_after_all_shuffled_cohorts_everybody_was_asked_once(noise: NoiseSource) -> None:
    participation = ShuffledCohorts(4)
    drawn = np.array([draw(participation, 1001, noise, round_name(version)) for version in range(8)])

    assert (drawn[:4].sum(axis=0) == 1).all()
    assert (drawn[4:].sum(axis=0) == 1).all()
    assert set(drawn.sum(axis=1)) == {250, 251}
    assert (drawn[0] != drawn[4]).any()


@pytest.mark.parametrize("number", [0, -1, True])
def test_cohorts_need_a_number(number: int) -> None:
    with pytest.raises(InputError, match="whole number >= 1"):
        FixedSizeCohort(number)
    with pytest.raises(InputError, match="whole number >= 1"):
        ShuffledCohorts(number)


def test_a_round_by_another_name_is_refused() -> None:
    with pytest.raises(InputError, match="round is named"):
        draw(ShuffledCohorts(2), 10, SeededNoise(0), "round-one")


@pytest.mark.parametrize(
    ("participation", "stated"),
    [
        (FullParticipation(), None),
        (PoissonParticipation(0.2), {"kind": "poisson", "probability": 0.2, "round": "round-1"}),
        (FixedSizeCohort(7), {"kind": "fixed-size", "size": 7, "round": "round-1"}),
        (ShuffledCohorts(3), {"kind": "shuffled-cohorts", "cohorts": 3, "round": "round-1"}),
    ],
)
def test_the_events_state_what_is_drawn(
    participation: Participation, stated: dict[str, object] | None
) -> None:
    attendance = an_attendance(participation)
    counted = isinstance(participation, FixedSizeCohort | ShuffledCohorts)
    (marked,) = attendance.mark([a_request(adjacency=Adjacency.REPLACE) if counted else a_request()])
    present = attendance.draw(50)

    assert marked.release.event().get("participation") == stated
    assert (present is None) == (stated is None)
    attendance.require_drawn()


@pytest.mark.parametrize("participation", [FixedSizeCohort(7), ShuffledCohorts(3)])
def test_a_user_more_takes_the_place_of_another(participation: Participation) -> None:
    """The sum of who takes part changes by more than one user's part, so add-remove would not be kept."""
    parts = np.random.default_rng(0).choice([-1.0, 1.0], 50)
    few, many = (
        [parts[:n][draw(participation, n, SeededNoise(0), f"round-{t}")].sum() for t in range(1, 1000)]
        for n in (49, 50)
    )

    assert np.abs(np.subtract(few, many)).max() > 1
    with pytest.raises(PrivacyError, match="a user more takes the place of another"):
        an_attendance(participation).mark([a_request()])
    an_attendance(participation).mark([a_request(adjacency=Adjacency.REPLACE)])


def test_who_takes_part_is_drawn_once() -> None:
    attendance = an_attendance(PoissonParticipation(0.5))
    attendance.draw(10)

    with pytest.raises(PrivacyError, match="drawn before"):
        attendance.draw(10)


@pytest.mark.parametrize("participation", [PoissonParticipation(0.5), FixedSizeCohort(2), ShuffledCohorts(2)])
def test_a_round_that_states_a_draw_without_one_is_refused(participation: Participation) -> None:
    with pytest.raises(PrivacyError, match="nobody was drawn"):
        an_attendance(participation).require_drawn()
    an_attendance(FullParticipation()).require_drawn()


@pytest.mark.parametrize("participation", [FullParticipation(), PoissonParticipation(0.5)])
def test_a_request_that_claims_amplification_for_itself_is_refused(participation: Participation) -> None:
    claimed = a_request(participation={"kind": "poisson", "probability": 0.001, "round": "round-1"})

    with pytest.raises(PrivacyError, match="'counts' states who takes part"):
        an_attendance(participation).mark([claimed])
    with pytest.raises(PrivacyError, match="nobody was drawn"):
        require_unsampled([claimed])


def test_amplification_under_replace_is_refused() -> None:
    with pytest.raises(PrivacyError, match="add-remove only"):
        an_attendance(PoissonParticipation(0.5)).mark([a_request(adjacency=Adjacency.REPLACE)])


def test_the_releases_of_a_plan_state_the_round_that_makes_them() -> None:
    rounds = [[a_request()], [a_request(name="bias")], [a_request(name="round-1/linear")]]

    stated = stated_by_release(rounds, PoissonParticipation(0.2))

    assert [field and field["round"] for field in stated.values()] == ["preparation", "round-1", "round-2"]
    assert set(stated_by_release(rounds, FullParticipation()).values()) == {None}
