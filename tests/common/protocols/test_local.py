"""Local privacy: each message has all the noise of a release before it leaves its client."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.frame import pack_frame
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocol import ExactSums, Given
from fedboard.common.protocols.local import Local
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.server.runtime import NoisedSums
from fedboard.simulations.sessions.session import drive
from tests.common.protocols.meetings import SilentNoise
from tests.common.protocols.test_distributed_dp import (
    ABOUT,
    RELEASE,
    WIDTH,
    QuietNoise,
    assert_noise,
    numbers_of,
)
from tests.refusals import refused

REQUESTS = (Request(source=SumSource.TOTAL, release=RELEASE),)


def gives(n_users: int, release: GaussianRelease = RELEASE, *, value: int = 0) -> Given:
    """Rows that are zero, but for one number of the first user."""
    totals = np.zeros((n_users, release.width), dtype=np.int64)
    totals[:1, 0] = value
    rows = Contribution(
        n_items=0,
        indptr=np.zeros(n_users + 1, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        totals={release.name: totals},
    )
    return Given(contribution=rows, requests=(Request(source=SumSource.TOTAL, release=release),))


def sums_of(*hosted: int, noise: NoiseSource | None = None, release: GaussianRelease = RELEASE) -> ExactSums:
    """The sums of clients that host so many users each."""
    protocol, names = Local(most_users=sum(hosted)), [f"client-{k}" for k in range(len(hosted))]
    server = protocol.open(ABOUT, REQUESTS, names, n_items=0)
    sides = {name: protocol.join(ABOUT, noise or SecureNoise()) for name in names}
    return drive(server, sides, {name: gives(n, release) for name, n in zip(names, hosted, strict=True)})


def test_one_user_alone_has_all_the_noise_that_is_booked() -> None:
    sums = sums_of(1)

    assert sums.noise_shares == 1 == Local(most_users=1).noise(SecureNoise()).least
    assert_noise(sums, RELEASE.noise_stddev)


@pytest.mark.parametrize(
    ("noise", "release"),
    [
        (QuietNoise(), RELEASE),
        (None, replace(RELEASE, l2_bound=RELEASE.l2_bound // 2)),
        (None, replace(RELEASE, noise_multiplier=3.6)),
    ],
    ids=["quiet", "half the sensitivity", "less than booked"],
)
def test_noise_that_is_wrong_by_a_factor_is_told_by_the_same_check(
    noise: NoiseSource | None, release: GaussianRelease
) -> None:
    with pytest.raises(AssertionError):
        assert_noise(sums_of(1, noise=noise, release=release), RELEASE.noise_stddev)


@pytest.mark.parametrize("hosted", [(9,), (1,) * 9, (4, 4, 1)])
def test_the_sum_has_the_noise_of_all_users_however_they_are_hosted(hosted: tuple[int, ...]) -> None:
    sums = sums_of(*hosted)

    assert sums.noise_shares == len(hosted)
    assert sums.noise_ratio == 3.0  # of which whoever reads the sums has to know
    assert_noise(sums, 3 * RELEASE.noise_stddev)


def test_rows_are_truncated_and_summed_exactly_under_the_noise() -> None:
    protocol = Local(most_users=1000)
    shift = protocol.packing(REQUESTS).shifts["total"]
    server = protocol.open(ABOUT, REQUESTS, ["a"], n_items=0)
    sums = drive(server, {"a": protocol.join(ABOUT, SilentNoise())}, {"a": gives(1, value=-12_345)})

    assert shift == 5
    assert numbers_of(sums)[0] == -(12_345 >> 5 << 5)


def test_a_release_is_booked_once_with_one_share_and_published_as_it_is(tmp_path) -> None:
    protocol = Local(most_users=4)
    sums = sums_of(2, 2)
    with Ledger.create(
        tmp_path / "l", Budget(epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    ) as ledger:
        booked = RELEASE.book(ledger, protocol.noise(SecureNoise()))
        released = NoisedSums(sums=sums, requests=REQUESTS, booked={"total": booked}).array("total")
        drawn_here = replace(RELEASE, name="other").book(ledger, SecureNoise())
        events = ledger.events()

    assert events[0]["shares"] == {"least": 1}
    assert events[0]["private"]
    assert np.abs(released[0] / RELEASE.grid_step - numbers_of(sums)).max() <= 2**RELEASE.release_shift
    with pytest.raises(PrivacyError, match="booked with no noise shares"):
        drawn_here.publish(whole_sums(sums, REQUESTS)["total"], noise_shares=sums.noise_shares)


def test_two_users_with_the_same_rows_send_different_messages_and_a_seed_repeats_them() -> None:
    protocol = Local(most_users=2)
    question = protocol.open(ABOUT, REQUESTS, ["a"], n_items=0).outgoing()["a"]
    sent = [protocol.join(ABOUT, SeededNoise(seed)).answer(question, gives(1)) for seed in (1, 2, 1)]

    assert sent[0] != sent[1]
    assert sent[0] == sent[2]
    assert len(sent[0]) < 4 * WIDTH + 500


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.zeros(WIDTH - 1, dtype=np.uint32), Refusal.WRONG_BOARD),
        (np.zeros(WIDTH, dtype=np.int32), Refusal.MALFORMED),
        (np.zeros((1, WIDTH), dtype=np.uint32), Refusal.MALFORMED),
        (np.zeros(WIDTH + 2000, dtype=np.uint32), Refusal.TOO_LARGE),
    ],
)
def test_a_message_that_does_not_fit_is_refused_and_changes_nothing(array, code: Refusal) -> None:
    protocol = Local(most_users=2)
    server = protocol.open(ABOUT, REQUESTS, ["a", "b"], n_items=0)
    question = server.outgoing()["a"]
    server.take("a", protocol.join(ABOUT, SilentNoise()).answer(question, gives(1, value=5 << 10)))
    bound = protocol.join(ABOUT, SilentNoise()).answer(question, gives(1))[: len(question)]

    assert refused(server.take, "b", bound + pack_frame("local", {}, {"residues": array})) is code
    server.proceed()
    assert numbers_of(server.sums()).sum() == 5 << 10


def test_a_client_with_more_users_than_there_is_room_for_sends_nothing() -> None:
    protocol = Local(most_users=2)
    question = protocol.open(ABOUT, REQUESTS, ["a"], n_items=0).outgoing()["a"]

    client = protocol.join(ABOUT, SecureNoise())
    assert refused(client.answer, question, gives(3)) is Refusal.TOO_MANY_USERS


def test_a_lattice_that_is_too_coarse_is_refused() -> None:
    coarse = Request(source=SumSource.TOTAL, release=replace(RELEASE, l2_bound=2, noise_multiplier=2.0))

    with pytest.raises(InputError, match="at least 5 are needed"):
        Local(most_users=2).packing([coarse])


def test_there_is_room_for_the_noise_of_everybody() -> None:
    everybodys = math.sqrt(10_000) * RELEASE.noise_stddev
    shift = Local(most_users=10_000).packing(REQUESTS).shifts["total"]

    assert 12 * everybodys / 2**shift + 10_000 * (RELEASE.l2_bound >> shift) < 2**31
    assert 12 * everybodys / 2 ** (shift - 1) + 10_000 * (RELEASE.l2_bound >> shift - 1) >= 2**31
