"""Laplace releases and choices: one object states, books and draws; accounts and certificates count them right."""

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, ndtri

from fedboard.common.certificate import Certificate, certify
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import (
    epsilon_by_library,
    epsilon_of_events,
    epsilon_when_adaptive,
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import event_mu, event_problems, event_rho
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.privacy.releases.pure import (
    BookedChoice,
    BookedLaplace,
    ExponentialRelease,
    LaplaceRelease,
    keeps_l1_bound,
)
from tests.common.releases import a_release

FALSE_ALARM = 1e-8
ADJACENCIES = tuple(Adjacency)
NOISE = LaplaceRelease(
    name="sums",
    width=3,
    grid_step=0.25,
    l1_bound=40,
    adjacency=Adjacency.ADD_REMOVE,
    noise_multiplier=2.0,
    covers="three sums",
)
CHOICE = ExponentialRelease(
    name="choice",
    candidates=4,
    score_sensitivity=10,
    adjacency=Adjacency.ADD_REMOVE,
    noise_multiplier=2.0,
    covers="the best of four",
)


def gaussian(name: str, z: float) -> GaussianRelease:
    return a_release(name=name, width=1, l2_bound=1000, noise_multiplier=z)


def events(*releases: LaplaceRelease | ExponentialRelease | GaussianRelease) -> list[dict[str, Any]]:
    return [{**r.event(), **SecureNoise().describe()} for r in releases]


def claimed(ledger: Ledger) -> Certificate:
    return certify(
        ledger.events(), commitment=ledger.commitment, trust=("t",), assumptions=("a",), dataset="d"
    )


@pytest.fixture
def ledger_of(tmp_path: Path) -> Callable[..., Ledger]:
    made = iter(range(10_000))

    def make(adjacency: Adjacency = Adjacency.ADD_REMOVE, epsilon: float = 50.0) -> Ledger:
        budget = Budget(epsilon=epsilon, delta=1e-6, adjacency=adjacency)
        return Ledger.create(tmp_path / f"{next(made)}.ledger", budget)

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "factor"), list(zip(ADJACENCIES, (1, 2, 2, 2), strict=True)))
def test_the_noise_that_leaves_has_the_scale_that_the_event_states(
    ledger_of: Callable[..., Ledger], adjacency: Adjacency, factor: int
) -> None:
    release = replace(NOISE, width=4000, adjacency=adjacency)
    with ledger_of(adjacency) as ledger:
        booked = release.book(ledger, SecureNoise())
        drawn = booked.publish(np.zeros(4000, dtype=np.int64)) / release.grid_step

    assert release.event()["noise_scale"] == 2.0 * 40 * factor  # z times what one user can move
    law = stats.laplace(scale=release.event()["noise_scale"])
    assert stats.kstest(drawn, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(0.6 * drawn, law.cdf).pvalue < FALSE_ALARM


def test_a_choice_has_the_probabilities_that_its_event_states(ledger_of: Callable[..., Ledger]) -> None:
    penalties, base, n_draws = [0, 25, 60, 3], [1, 2, 3, 1], 3000
    stated = CHOICE.event()["score_scale"]
    assert stated == 2 * 2.0 * 10
    with ledger_of() as ledger:
        found = []
        event = {**CHOICE.event(), **SecureNoise().describe()}
        receipt = ledger.book(event)
        for _ in range(n_draws):
            stream = SecureNoise().stream(CHOICE.name)
            unused = replace(receipt)  # many draws for the price of one: a test only
            booked = BookedChoice(release=CHOICE, event=event, receipt=unused, stream=stream)
            found.append(booked.choose(penalties, base))

    def p_value(scale: float) -> float:
        weights = np.array(base) * np.exp(-np.array(penalties) / scale)
        return float(
            stats.chisquare(np.bincount(found, minlength=4), weights / weights.sum() * n_draws).pvalue
        )

    assert p_value(stated) > FALSE_ALARM
    assert p_value(stated / 2) < FALSE_ALARM  # without the factor 2 of the mechanism
    assert p_value(stated * 2) < FALSE_ALARM


def test_penalties_within_the_stated_sensitivity_keep_the_stated_epsilon_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    epsilon = 1.0 / CHOICE.noise_multiplier

    def worst(move: int) -> float:
        largest = 0.0
        for _ in range(300):
            before = rng.integers(0, 100, 4)
            after = before + move * rng.choice([-1, 1], 4)
            logs = [-(scores / CHOICE.score_scale) for scores in (before, after)]
            p, q = (log - np.logaddexp.reduce(log) for log in logs)
            largest = max(largest, float(np.abs(p - q).max()))
        return largest

    assert worst(CHOICE.score_sensitivity) <= epsilon * (1 + 1e-12)
    assert worst(2 * CHOICE.score_sensitivity) > epsilon


@pytest.mark.parametrize("release", [NOISE, CHOICE])
def test_what_is_paid_for_leaves_once_and_is_never_copied(
    ledger_of: Callable[..., Ledger], release: LaplaceRelease | ExponentialRelease
) -> None:
    with ledger_of() as ledger:
        booked = release.book(ledger, SecureNoise())
        with pytest.raises(PrivacyError, match="booked already"):
            release.book(ledger, SecureNoise())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="cannot be copied"):
            copied(booked)
    draw = (
        (lambda: booked.publish(np.zeros(3, dtype=np.int64)))
        if isinstance(booked, BookedLaplace)
        else (lambda: booked.choose([0, 1, 2, 3]))
    )
    draw()
    with pytest.raises(PrivacyError, match="before"):
        draw()


@pytest.mark.parametrize("release", [NOISE, CHOICE])
def test_a_receipt_opens_one_release(
    ledger_of: Callable[..., Ledger], release: LaplaceRelease | ExponentialRelease
) -> None:
    with ledger_of() as ledger:
        booked = release.book(ledger, SecureNoise())

    with pytest.raises(PrivacyError, match="used before"):
        replace(booked)  # would draw the same noise for other data
    with pytest.raises(PrivacyError, match="used before"):
        replace(booked, stream=SecureNoise().stream(release.name))  # would draw twice for one price


@pytest.mark.parametrize("release", [NOISE, CHOICE])
def test_a_receipt_for_less_noise_or_for_noise_of_another_kind_opens_nothing(
    ledger_of: Callable[..., Ledger], release: LaplaceRelease | ExponentialRelease
) -> None:
    kind = BookedLaplace if isinstance(release, LaplaceRelease) else BookedChoice
    with ledger_of() as ledger:
        booked = release.book(ledger, SecureNoise())
    louder = replace(release, noise_multiplier=1.0)
    with pytest.raises(PrivacyError, match="another release"):
        kind(release=louder, event=booked.event, receipt=booked.receipt, stream=booked.stream)
    with pytest.raises(PrivacyError, match="other kind"):
        kind(
            release=release,
            event=booked.event,
            receipt=booked.receipt,
            stream=SeededNoise(1).stream(release.name),
        )


@pytest.mark.parametrize(
    ("release", "changes"),
    [
        (NOISE, {"l1_bound": 0}),
        (NOISE, {"width": 0}),
        (NOISE, {"grid_step": 0.0}),
        (NOISE, {"noise_multiplier": 0.0}),
        (NOISE, {"noise_multiplier": math.inf}),
        (NOISE, {"adjacency": "neighbours"}),
        (NOISE, {"covers": " "}),
        (CHOICE, {"score_sensitivity": 0}),
        (CHOICE, {"candidates": 0}),
        (CHOICE, {"noise_multiplier": math.nan}),
    ],
)
def test_a_release_without_a_bound_or_without_noise_is_refused(
    release: LaplaceRelease | ExponentialRelease, changes: dict[str, Any]
) -> None:
    with pytest.raises(PrivacyError):
        replace(release, **changes)


@pytest.mark.parametrize(
    ("release", "field"),
    [(NOISE, "noise_scale"), (NOISE, "l1_sensitivity"), (NOISE, "l1_bound"), (CHOICE, "score_scale")],
)
def test_an_event_whose_numbers_do_not_follow_from_each_other_is_not_sound(
    release: LaplaceRelease | ExponentialRelease, field: str
) -> None:
    event = release.event()

    assert not event_problems(event)
    assert event_problems({**event, field: event[field] * 2})


def test_rows_keep_an_l1_bound_by_their_absolute_values_and_none_overflows() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    rows = [[3, -4], [4, -4], [-8, 0], [0, 7], [least, 0], [most, most], [least, least], [-3, 3]]

    kept = keeps_l1_bound(np.array(rows, dtype=np.int64), 7)

    assert kept.tolist() == [sum(abs(number) for number in row) <= 7 for row in rows]
    assert kept.tolist() == [True, False, False, True, False, False, False, True]


def test_wrong_sums_and_penalties_are_refused_before_anything_is_drawn(
    ledger_of: Callable[..., Ledger],
) -> None:
    with ledger_of() as ledger:
        noised, choice = NOISE.book(ledger, SecureNoise()), CHOICE.book(ledger, SecureNoise())
    for sums in (np.zeros(3), np.zeros(2, dtype=np.int64)):
        with pytest.raises(InputError):
            noised.publish(sums)  # type: ignore[arg-type]
    for penalties, base in (([1, 2], None), ([1, 2, 3, 4], [1, 1, 1, 0]), ([1, 2, 3, 4], [1])):
        with pytest.raises(InputError):
            choice.choose(penalties, base)
    assert noised.publish(np.zeros(3, dtype=np.int64)).shape == (3,)
    assert choice.choose([0, 0, 0, 0]) in range(4)


@pytest.mark.slow
def test_the_epsilons_of_pure_questions_add_up_and_gaussian_ones_among_them_are_no_excuse() -> None:
    pure = events(replace(NOISE, name="a"), replace(CHOICE, name="b"), replace(CHOICE, name="c"))
    mixed = [*pure, *events(gaussian("d", 50.0))]

    assert epsilon_when_adaptive(pure, 1e-6) == pytest.approx(1.5)
    assert epsilon_of_events(pure, 1e-6) <= 1.5 * (1 + 1e-12)
    # Beside a Gaussian the sum of epsilons alone is no bound any more, and nothing like it is claimed.
    assert epsilon_when_adaptive(mixed, 1e-6) > 1.5
    assert epsilon_of_events(mixed, 1e-6) <= epsilon_when_adaptive(mixed, 1e-6)


def test_many_small_pure_questions_cost_less_than_their_sum() -> None:
    many = events(*(replace(CHOICE, name=str(n), noise_multiplier=50.0) for n in range(200)))

    assert epsilon_when_adaptive(many, 1e-6) < 0.9 * 200 / 50.0


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 4.0, 20.0])
def test_mu_of_a_choice_covers_every_corner_that_a_bounded_range_allows_and_not_much_more(
    epsilon: float,
) -> None:
    event = replace(CHOICE, noise_multiplier=1.0 / epsilon).event()
    odds = np.linspace(-epsilon - 5.0, 5.0, 20_001)
    corners = ndtri(expit(odds + epsilon)) - ndtri(expit(odds))

    assert corners.max() <= event_mu(event)
    assert corners.max() >= event_mu(event) * (1 - 1e-6)
    assert event_mu(event) < event_mu({**NOISE.event(), "noise_multiplier": 1.0 / epsilon})
    assert event_rho(event) == pytest.approx(epsilon**2 / 8)


def test_the_libraries_agree_that_a_mixed_account_is_not_underbooked() -> None:
    mixed = events(NOISE, CHOICE, gaussian("g", 3.0))

    exact = epsilon_by_library(mixed, 1e-6, accountant="pld")
    assert exact <= epsilon_by_library(mixed, 1e-6, accountant="rdp")
    alone = epsilon_by_library(mixed[2:], 1e-6, accountant="pld")
    assert alone < exact <= alone + 0.5 + 0.5
    assert epsilon_by_library(events(CHOICE), 1e-9, accountant="pld") == pytest.approx(0.5, rel=1e-3)


def test_a_certificate_with_laplace_noise_and_choices_is_recomputed_and_an_edit_is_found(
    ledger_of: Callable[..., Ledger],
) -> None:
    with ledger_of() as ledger:
        NOISE.book(ledger, SecureNoise())
        CHOICE.book(ledger, SecureNoise())
        certificate = claimed(ledger)
        assert ledger.spent().epsilon == pytest.approx(1.0)

    again = Certificate.from_json(certificate.to_json())
    assert again.holds
    assert not again.composition.exact
    for place, field in (
        (0, "noise_multiplier"),
        (0, "l1_bound"),
        (1, "score_scale"),
        (1, "noise_multiplier"),
    ):
        plain = json.loads(certificate.to_json())
        plain["releases"][place][field] *= 2
        assert not Certificate.from_dict(plain).holds


@pytest.mark.parametrize(
    ("adjacency", "told", "one"),
    [
        (Adjacency.REPLACE_VALUES, "how many values each user has is public", "One value of a user, changed"),
        (
            Adjacency.REPLACE_LABELS,
            "every feature, and which user it belongs to, is public",
            "One label of a user",
        ),
    ],
)
def test_a_certificate_says_that_sizes_or_features_are_not_protected(
    ledger_of: Callable[..., Ledger], adjacency: Adjacency, told: str, one: str
) -> None:
    with ledger_of(adjacency) as ledger:
        replace(NOISE, adjacency=adjacency).book(ledger, SecureNoise())
        sentences = " ".join(claimed(ledger).statements)

    assert told in sentences
    assert one in sentences
    assert "added or removed" not in sentences


@pytest.mark.parametrize("budgeted", ADJACENCIES)
@pytest.mark.parametrize("asked", ADJACENCIES)
def test_an_account_of_one_adjacency_takes_no_release_of_another(
    ledger_of: Callable[..., Ledger], budgeted: Adjacency, asked: Adjacency
) -> None:
    with ledger_of(budgeted) as ledger:
        if asked is budgeted:
            replace(NOISE, adjacency=asked).book(ledger, SecureNoise())
        else:
            with pytest.raises(PrivacyError, match="must be the same"):
                replace(NOISE, adjacency=asked).book(ledger, SecureNoise())
