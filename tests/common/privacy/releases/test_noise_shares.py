"""Noise in shares: the law of their sum, what it costs, and that no release is published with the wrong kind."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from fedboard.common.certificate import certify
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.participation import Attendance, FixedSizeCohort
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.events import digest, event_problems
from fedboard.common.privacy.ledger.ledger import Receipt
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise, noise_problems
from fedboard.common.privacy.releases.noise_shares import NoiseShares, SharedNoise, aliasing, coins_of
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.server.runtime import NoisedSums

PRIVATE, SEEDED = SharedNoise(least=4, drawn=SecureNoise()), SharedNoise(least=4, drawn=SeededNoise(3))
RANGE = 160  # numbers on each side of zero: far beyond every law here


def law_of_shares(deviation, shares):
    """P(sum of rounded Gaussians = k), k in -RANGE..RANGE: the exact law of one share, convolved."""
    cells = np.arange(-RANGE, RANGE + 1)
    single = stats.norm.cdf((cells + 0.5) / deviation) - stats.norm.cdf((cells - 0.5) / deviation)
    single = np.where(cells > 0, single[::-1], single)  # the small tail, where nothing cancels
    law = single
    for _ in range(shares - 1):
        law = np.convolve(law, single, mode="same")
    return law


def claimed_law(deviation, shares):
    """P(rint(G + U_1 + .. + U_{n-1}) = k), by the inverse Fourier integral of exp(-n s^2 t^2 / 2) sinc(t / 2)^n."""
    step = 2 * math.pi / (8 * RANGE)
    t = np.arange(0, 40 / (deviation * math.sqrt(shares)), step)
    transform = np.exp(-shares * (deviation * t) ** 2 / 2) * np.sinc(t / (2 * math.pi)) ** shares
    transform[0] /= 2  # the integrand is even: half of it, twice
    half = np.array([np.sum(transform * np.cos(t * k)) for k in range(RANGE + 1)]) * step / math.pi
    return np.concatenate([half[:0:-1], half])


def pointwise_bound(deviation, shares):
    return 1.28 * (shares + 1) * math.exp(-((math.pi * deviation) ** 2) / 2)


def hockey_stick(law, shift, epsilon):
    """sum_k max(0, P(k) - e^epsilon P(k - shift)): the delta of two neighbours so many cells apart."""
    moved = np.roll(law, shift)
    return float(np.maximum(law - math.exp(epsilon) * moved, 0.0).sum())


def gaussian_delta(epsilon, mu):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


# --- the theorem


def test_the_claimed_law_is_that_of_a_rounded_gaussian_with_uniform_numbers_on_top():
    """The Fourier integral against the definition, where one uniform number is averaged over by quadrature."""

    def cell(k):
        def given(u):
            return stats.norm.cdf(k + 0.5 - u, scale=math.sqrt(2)) - stats.norm.cdf(
                k - 0.5 - u, scale=math.sqrt(2)
            )

        return integrate.quad(given, -0.5, 0.5, epsabs=1e-13)[0]

    law = claimed_law(1.0, 2)

    assert law[RANGE : RANGE + 4] == pytest.approx([cell(k) for k in range(4)], abs=1e-12)


@pytest.mark.parametrize("shares", [2, 3, 10])
@pytest.mark.parametrize("deviation", [0.5, 0.75, 1.0, 1.5, 2.0])
def test_shares_add_up_to_the_claimed_law_within_the_bound(deviation, shares):
    error = np.abs(law_of_shares(deviation, shares) - claimed_law(deviation, shares))

    assert error.max() <= pointwise_bound(deviation, shares) + 1e-15
    assert error.sum() / 2 <= aliasing(clients=shares, deviation=deviation) + 1e-13
    if deviation == 0.5:  # the error is there to be seen, so what is below the bound is not mere rounding
        assert error.max() > 1e-3


def test_shares_that_are_small_against_the_lattice_add_up_to_something_else():
    error = np.abs(law_of_shares(0.2, 2) - claimed_law(0.2, 2))

    assert error.sum() / 2 > 0.1
    assert hockey_stick(law_of_shares(0.2, 2), 1, 1.0) > gaussian_delta(1.0, 1 / (0.2 * math.sqrt(2))) + 0.02


@pytest.mark.parametrize("shares", [1, 2, 7])
@pytest.mark.parametrize("shift", [1, 4, 12])
def test_the_lattice_law_never_tells_more_than_the_gaussian(shares, shift):
    law, mu = law_of_shares(5.0, shares), shift / (5.0 * math.sqrt(shares))
    more = shift / (5.0 * math.sqrt(shares + 1))

    for epsilon in (0.0, mu * mu / 2, mu, 2 * mu):
        assert hockey_stick(law, shift, epsilon) <= gaussian_delta(epsilon, mu) + 1e-14
    assert hockey_stick(law, shift, mu * mu / 2) > 1.02 * gaussian_delta(mu * mu / 2, more)


def test_at_five_lattice_units_the_aliasing_is_nothing():
    assert aliasing(clients=10**6, deviation=5.0) < 1e-41
    assert aliasing(clients=10**6, deviation=5.0) * 10**9 * (1 + math.exp(20)) < 1e-23


# --- the draws


def assert_deviation(values, stddev):
    """Within 3 %, which 60 000 numbers tell from 6 % by ten deviations."""
    assert float(np.std(values)) == pytest.approx(stddev, rel=0.03)


@pytest.fixture
def wide(make_release):
    return make_release(rows=20_000, width=3, l2_bound=2**20, noise_multiplier=3.0)


@pytest.mark.parametrize("shift", [0, 6])
def test_least_shares_make_up_the_noise_that_is_booked(wide, shift):
    shares = NoiseShares(least=4)
    total = sum(shares.draw(wide, SecureNoise().stream("a"), shift=shift) for _ in range(4))

    assert total.dtype == np.int64
    assert_deviation(total * 2.0**shift, wide.noise_stddev)
    assert stats.kstest(total[:, 0] * 2.0**shift, stats.norm(scale=wide.noise_stddev).cdf).pvalue > 1e-9
    assert shares.share_stddev(wide) == pytest.approx(wide.noise_stddev / 2)


@pytest.mark.parametrize("wrong", ["quiet", "least", "sensitivity"])
def test_shares_that_are_wrong_by_a_factor_are_told(wide, wrong):
    least, drawn = (5, wide) if wrong == "least" else (4, wide)
    if wrong == "sensitivity":
        drawn = replace(wide, l2_bound=wide.l2_bound // 2)
    total = sum(NoiseShares(least=least).draw(drawn, SecureNoise().stream("a"), shift=0) for _ in range(4))

    with pytest.raises(AssertionError):
        assert_deviation((0.8 if wrong == "quiet" else 1.0) * total, wide.noise_stddev)


def test_a_client_with_several_users_adds_their_shares_at_once(wide):
    drawn = NoiseShares(least=1).draw(wide, SecureNoise().stream("a"), shift=2, shares=9)

    assert_deviation(drawn * 4.0, 3 * wide.noise_stddev)


def test_off_diagonal_shares_have_half_the_variance(make_release):
    release = make_release(rows=20_000, width=3, layout="symmetric", same_sign=True, l2_bound=2**20)
    drawn = NoiseShares(least=1).draw(release, SecureNoise().stream("a"), shift=0)

    assert_deviation(drawn[:, 0], release.noise_stddev)
    assert_deviation(drawn[:, 1], release.noise_stddev / math.sqrt(2))


def test_draws_depend_on_the_stream_and_the_coordinate_alone(wide):
    whole = NoiseShares(least=2).draw(wide, SeededNoise(1).stream("a"), shift=0)
    first = NoiseShares(least=2).draw(replace(wide, rows=10), SeededNoise(1).stream("a"), shift=0)

    np.testing.assert_array_equal(first, whole[:10])


def test_a_lattice_that_is_too_coarse_for_a_share_is_refused(make_release):
    release = make_release(noise_multiplier=1.0, l2_bound=40)

    NoiseShares(least=4).draw(release, SecureNoise().stream("a"), shift=2)
    for shares, shift in ((NoiseShares(least=5), 2), (NoiseShares(least=4), 3)):
        with pytest.raises(InputError, match="at least 5 are needed; use fewer clients"):
            shares.draw(release, SecureNoise().stream("a"), shift=shift)
    with pytest.raises(InputError, match="at least one noise share"):
        NoiseShares(least=4).draw(release, SecureNoise().stream("a"), shift=0, shares=0)


def test_a_share_is_rounded_to_the_nearest_number_of_the_coarsest_lattice(make_release):
    """Truncated, a share of five lattice units would be 8 % too small; so each number is worked out alone."""
    release = make_release(rows=300, width=3, noise_multiplier=10.0, l2_bound=8)
    stream = SeededNoise(1).stream("a")

    drawn = NoiseShares(least=4).draw(release, stream, shift=3)

    for number, value in enumerate(stream.normal(0, 900)):
        assert drawn[divmod(number, 3)] == round(value * 5.0)  # 10 * 8 / sqrt(4) / 2^3
    with pytest.raises(InputError, match="at least 5"):
        NoiseShares(least=5).draw(release, stream, shift=3)


def test_the_smallest_column_of_a_symmetric_release_decides_what_is_too_coarse(make_release):
    release = make_release(width=3, layout="symmetric", noise_multiplier=1.0, l2_bound=7)

    with pytest.raises(InputError, match=r"4\.95"):
        NoiseShares(least=1).require_smooth(release, shift=0)


@pytest.mark.parametrize("least", [0, -1, True, 2.0])
def test_no_share_at_all_is_refused(least):
    with pytest.raises(InputError, match="whole number >= 1"):
        NoiseShares(least=least)
    with pytest.raises(InputError, match="whole number >= 1"):
        SharedNoise(least=least, drawn=SecureNoise())


# --- booking and publishing


def test_sums_with_enough_shares_are_published_as_they_are(make_release, ledger):
    release = make_release(l2_bound=2**30)
    booked = release.book(ledger, PRIVATE)
    sums = np.arange(2000, dtype=np.int64).reshape(200, 10) * 2**24 - 2**30

    published = booked.publish(sums, noise_shares=5)

    kept = release.release_shift
    assert kept > 0
    np.testing.assert_array_equal(published, (sums >> kept) * math.ldexp(release.grid_step, kept))


@pytest.mark.parametrize("source", [PRIVATE, SEEDED, SecureNoise()])
@pytest.mark.parametrize("shares", [0, 1, 3, 4, 7])
def test_noise_is_never_left_out_or_counted_twice(make_release, ledger, source, shares):
    booked = make_release().book(ledger, source)
    sums = np.zeros((200, 10), dtype=np.int64)
    right = shares >= 4 if isinstance(source, SharedNoise) else shares == 0

    if right:
        booked.publish(sums, noise_shares=shares)
    else:
        with pytest.raises(PrivacyError, match="nothing was published"):
            booked.publish(sums, noise_shares=shares)
        assert booked.part(0, 200) is not None  # no row was used up


@pytest.mark.parametrize("shares", [0, 3, 4])
def test_a_runtime_hands_on_how_many_shares_its_sums_hold(make_release, ledger, shares):
    request = Request(source=SumSource.ITEM_COUNT, release=make_release())
    sums = DenseSums(sums={"items-1": np.zeros((200, 10), dtype=np.int64)}, noise_shares=shares)
    booked = {"items-1": request.release.book(ledger, PRIVATE)}
    released = NoisedSums(sums=sums, requests=[request], booked=booked)

    if shares < 4:
        with pytest.raises(PrivacyError, match="booked with 4 noise shares"):
            released.array("items-1")
        with pytest.raises(PrivacyError, match="booked with 4 noise shares"):
            released.map_items(("items-1",), lambda start, noised: noised["items-1"], width=10)
    else:
        assert not released.map_items(("items-1",), lambda start, noised: noised["items-1"], width=10).any()


def test_sums_with_and_without_shares_are_not_added_up(make_release):
    request = Request(source=SumSource.ITEM_COUNT, release=make_release())
    exact = DenseSums(sums={"items-1": np.ones((200, 10), dtype=np.int64)})
    shared = replace(exact, noise_shares=2)

    assert DenseSums.total_of([shared, shared], [request]).noise_shares == 4
    assert DenseSums.total_of([exact, exact], [request]).noise_shares == 0
    with pytest.raises(PrivacyError, match="cannot be added up"):
        DenseSums.total_of([shared, exact], [request])


@pytest.mark.parametrize("source", [PRIVATE, SEEDED])
def test_nothing_is_drawn_where_the_clients_add_the_noise(make_release, source):
    stream = source.stream("items-1")

    assert stream.private is source.private
    for draw in (stream.bits, stream.normal):
        with pytest.raises(PrivacyError, match="comes in shares"):
            draw(0, 1)


def test_a_release_that_is_booked_with_one_kind_of_noise_does_not_take_the_other(make_release, ledger):
    release = make_release()
    for booked, drawn in ((PRIVATE, SecureNoise()), (SecureNoise(), PRIVATE)):
        event = {**release.event(), **booked.describe()}
        receipt = Receipt(seq=0, name=release.name, event_digest=digest(event), hash="")
        with pytest.raises(PrivacyError, match="the other kind"):
            BookedRelease(release=release, event=event, receipt=receipt, stream=drawn.stream("items-1"))


def test_private_shares_are_not_booked_twice_and_seeded_ones_can_be_made_again(make_release, ledger):
    make_release(name="a").book(ledger, PRIVATE)
    make_release(name="b").book(ledger, SEEDED)

    make_release(name="b").book(ledger, SEEDED, reissue=True)
    with pytest.raises(PrivacyError, match="cannot be drawn again"):
        make_release(name="a").book(ledger, PRIVATE, reissue=True)
    with pytest.raises(PrivacyError, match="other numbers"):
        make_release(name="b").book(ledger, replace(SEEDED, least=5), reissue=True)


def test_who_takes_part_is_drawn_from_the_servers_own_coins():
    attendance = Attendance(participation=FixedSizeCohort(3), name="round-1", noise=coins_of(PRIVATE))

    assert attendance.draw(10).sum() == 3
    assert coins_of(SecureNoise()) == SecureNoise()


# --- what an event may say


@pytest.mark.parametrize(
    "stated",
    [{}, None, 4, {"least": 0}, {"least": -2}, {"least": True}, {"least": 2.0}, {"least": 2, "most": 3}],
)
def test_shares_must_state_their_least_number_and_nothing_else(make_event, stated):
    assert any("shares must be" in problem for problem in event_problems(make_event() | {"shares": stated}))


def test_shares_are_not_accounted_with_coins_that_the_server_knows(make_release, make_event, ledger):
    coins = {"kind": "poisson", "probability": 0.1, "round": "round-1"}

    problems = event_problems(make_event(participation=coins) | {"shares": {"least": 2}})
    assert any("poisson" in problem for problem in problems)
    with pytest.raises(PrivacyError, match="poisson"):
        make_release(participation=coins).book(ledger, PRIVATE)
    disjoint = {"kind": "disjoint", "cohort": 0, "cohorts": 2, "round": "disjoint"}
    make_release(name="disjoint", participation=disjoint).book(ledger, PRIVATE)
    fixed = {"kind": "fixed-size", "size": 3, "round": "fixed"}
    assert not event_problems(
        make_release(participation=fixed, adjacency="replace").event() | {"shares": {"least": 2}}
    )


def test_shares_are_accounted_for_gaussian_noise_only(make_event):
    common = {key: make_event()[key] for key in ("name", "covers", "adjacency", "noise_multiplier")}
    event = {**common, "mechanism": "laplace", "l1_sensitivity": 1.0, "noise_scale": 20.0}

    assert not event_problems(event)
    event["shares"] = {"least": 2}
    assert any("gaussian only" in problem for problem in event_problems(event))


@pytest.mark.parametrize(
    "stated",
    [
        SecureNoise().describe() | {"shares": {"least": 4}},
        PRIVATE.describe() | {"shares": {"least": 5}},
        PRIVATE.describe() | {"shares": "4"},
        {key: value for key, value in PRIVATE.describe().items() if key != "shares"},
        SEEDED.describe() | {"private": True},
        {key: value for key, value in SEEDED.describe().items() if key != "seed"} | {"private": True},
    ],
)
def test_shares_and_the_noise_source_must_tell_one_story(make_release, stated):
    assert noise_problems({**make_release().event(), **stated})


def certificate_of(ledger):
    return certify(ledger.events(), commitment=ledger.commitment, trust=["t"], assumptions=["a"], dataset="d")


@pytest.mark.parametrize("source", [PRIVATE, SEEDED])
def test_a_certificate_says_what_the_shares_are_and_shows_when_they_are_changed(make_release, ledger, source):
    make_release().book(ledger, source)

    certificate = certificate_of(ledger)

    assert certificate.holds
    assert certificate.private is source.private
    assert "at least 4 of them honest" in certificate.noise
    assert type(certificate).from_json(certificate.to_json()).holds
    for changed in ({"least": 9}, {"least": 1}, None):
        event = {key: value for key, value in certificate.releases[0].items() if key != "shares"}
        event |= {} if changed is None else {"shares": changed}
        tampered = replace(certificate, releases=(event,))
        failed = {finding.check for finding in tampered.verify() if not finding.passed}
        assert {"release 'items-1'", "digest"} <= failed


def test_shares_change_nothing_of_what_a_release_costs(make_release, make_event):
    with_shares = {**make_release().event(), **PRIVATE.describe()}

    for key, value in make_release().event().items():
        assert with_shares[key] == value
    assert not event_problems(with_shares)
