"""Noise in shares inside a secure sum: the smallest set of survivors has as much as is booked, no sum has less."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream, SecureNoise
from fedboard.common.protocol import ExactSums, Given, NoiseAt
from fedboard.common.protocols.distributed_dp import DistributedDp
from fedboard.common.protocols.registry import protocol_from, sized_protocol
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.sessions.session import Lost, drive, nobody_lost
from tests.common.protocols.meetings import SilentNoise
from tests.common.releases import a_release

CLIENTS, WIDTH, ABOUT = 10, 20_000, b"run 1, round 1"
MASKED = 2
"""The step in which clients give their contributions."""
RELEASE = a_release(name="total", width=WIDTH, grid_step=2.0**-12, l2_bound=2**24, noise_multiplier=4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietStream(NoiseStream):
    """Four fifths of the noise."""

    inner: NoiseStream
    key: bytes = field(default=b"", repr=False)

    def normal(self, offset: int, count: int) -> FloatArray:
        return 0.8 * self.inner.normal(offset, count)


@dataclass(frozen=True)
class QuietNoise:
    """A source whose shares are too small."""

    private: ClassVar[bool] = True
    label: ClassVar[str] = "quiet"

    def describe(self) -> dict[str, Any]:
        return {"noise": self.label, "private": self.private}

    def stream(self, name: str) -> NoiseStream:
        return QuietStream(inner=SecureNoise().stream(name))


def a_protocol(**settings: object) -> DistributedDp:
    """For ten clients: seven survivors, of whom one may collude, so six honest ones."""
    made = sized_protocol("distributed-dp", clients=CLIENTS, users=CLIENTS, settings=settings)
    assert isinstance(made, DistributedDp)
    return made


def nothing_to_give(release: GaussianRelease = RELEASE) -> Given:
    """One user, whose row is zero: what comes out is noise alone."""
    rows = Contribution(
        n_items=0,
        indptr=np.zeros(2, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        totals={release.name: np.zeros((1, release.width), dtype=np.int64)},
    )
    return Given(contribution=rows, requests=(Request(source=SumSource.TOTAL, release=release),))


def lost_ones(*numbers: int, step: int = MASKED) -> Lost:
    """These clients' contributions never arrive."""
    return lambda at, name: at == step and int(name.removeprefix("client-")) in numbers


def sums_of(
    protocol: DistributedDp,
    *,
    lost: Lost = nobody_lost,
    noise: Callable[[int], NoiseSource] = lambda _: SecureNoise(),
    clients: DistributedDp | None = None,
    drawn: GaussianRelease = RELEASE,
) -> ExactSums:
    """A whole session; ``clients`` run another protocol, or draw for another release, where they are wrong."""
    names = [f"client-{k}" for k in range(CLIENTS)]
    asked = nothing_to_give()
    server = protocol.open(ABOUT, asked.requests, names, n_items=0)
    sides = {name: (clients or protocol).join(ABOUT, noise(k)) for k, name in enumerate(names)}
    return drive(server, sides, dict.fromkeys(names, nothing_to_give(drawn)), lost)


def numbers_of(sums: ExactSums) -> FloatArray:
    return whole_sums(sums, nothing_to_give().requests)["total"][0].astype(np.float64)


def assert_noise(sums: ExactSums, stddev: float) -> None:
    """Within 3 %: six deviations of the estimate from 20 000 numbers."""
    assert float(np.std(numbers_of(sums))) == pytest.approx(stddev, rel=0.03)


SMALLEST = lost_ones(7, 8, 9)
ONE_COLLUDES: Callable[[int], NoiseSource] = lambda k: SilentNoise() if k == 0 else SecureNoise()  # noqa: E731


# How much noise there is.


def test_the_smallest_admitted_set_of_survivors_leaves_exactly_the_noise_that_is_booked() -> None:
    protocol = a_protocol()
    sums = sums_of(
        protocol, lost=SMALLEST, noise=ONE_COLLUDES
    )  # whoever colludes knows its share: it is no noise

    assert protocol.parameters["honest"] == 6
    assert sums.noise_shares == 6 == protocol.noise(SecureNoise()).least
    assert_noise(sums, RELEASE.noise_stddev)


def unsound(**wrong: object) -> DistributedDp:
    """A protocol that no constructor lets through."""
    made = a_protocol()
    for name, value in wrong.items():
        object.__setattr__(made.rules, name, value)
    return made


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": lambda k: SilentNoise() if k == 0 else QuietNoise()},
        {"clients": unsound(honest=7)},
        {"drawn": replace(RELEASE, l2_bound=RELEASE.l2_bound // 2)},
        {"drawn": replace(RELEASE, noise_multiplier=3.6)},
    ],
    ids=["quiet shares", "colluding clients counted", "half the sensitivity", "less than booked"],
)
def test_noise_that_is_wrong_by_a_factor_is_told_by_the_same_check(wrong: dict[str, Any]) -> None:
    sums = sums_of(a_protocol(), lost=SMALLEST, **{"noise": ONE_COLLUDES, **wrong})

    with pytest.raises(AssertionError):
        assert_noise(sums, RELEASE.noise_stddev)


@pytest.mark.parametrize(("gone", "staying"), [((), 10), ((2,), 9), ((2, 5, 6), 7)])
def test_those_who_stay_add_noise_and_those_who_drop_out_leave_as_much_as_is_booked(
    gone: tuple[int, ...], staying: int
) -> None:
    sums = sums_of(a_protocol(), lost=lost_ones(*gone))

    assert sums.noise_shares == staying - 1 >= 6
    assert_noise(sums, RELEASE.noise_stddev * math.sqrt(staying / 6))


# What is agreed on.


def test_a_protocol_is_sized_for_its_smallest_set_of_survivors() -> None:
    sized = {
        "most_users": 2000,
        "survivors": 700,
        "dropout": 0.3,
        "colluding": 0.1,
        "honest": 600,
        "most_clients": 1000,
    }
    made = sized_protocol("distributed-dp", clients=1000, users=2000)

    assert made.noise_at is NoiseAt.SHARES
    assert made.parameters == sized
    assert protocol_from("distributed-dp", made.parameters) == made
    assert a_protocol(honest=3).parameters["honest"] == 3
    assert "At least 6 of the clients" in a_protocol().trust.privacy_relies_on


@pytest.mark.parametrize(
    "wrong",
    [
        {"honest": 7},
        {"honest": 0},
        {"honest": True},
        {"survivors": 6},
        {"most_clients": 20},
        {"most_clients": 6},
        {"colluding": 0.2},
    ],
)
def test_a_client_refuses_parameters_with_which_its_share_would_be_too_small(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"honest must be|most_clients must be"):
        protocol_from("distributed-dp", {**a_protocol().parameters, **wrong})


def test_no_honest_client_left_is_told_when_the_protocol_is_sized() -> None:
    with pytest.raises(InputError, match=r"from 1 to survivors - floor.* = 0, got 0.*more survivors"):
        a_protocol(colluding=0.3, survivors=3)


@pytest.mark.parametrize(
    ("stated", "code"), [(11, Refusal.BAD_PROTOCOL), (6, Refusal.TOO_FEW)], ids=["too many", "too few"]
)
def test_a_client_refuses_a_session_that_the_parameters_are_not_for(stated: int, code: Refusal) -> None:
    """The client's own protocol, and a server that runs another one with other numbers."""
    names = [f"client-{k}" for k in range(stated)]
    other = sized_protocol("distributed-dp", clients=stated, users=stated, settings={"dropout": 0.2})
    server = other.open(ABOUT, nothing_to_give().requests, names, n_items=0)
    sides = {name: a_protocol().join(ABOUT, SecureNoise()) for name in names}
    for name, message in server.outgoing().items():
        server.take(name, sides[name].answer(message, None))
    server.proceed()

    with pytest.raises(RefusedError) as refused:
        sides["client-0"].answer(server.outgoing()["client-0"], None)
    assert refused.value.code is code


def test_a_server_opens_no_session_with_more_clients_than_there_is_room_for() -> None:
    with pytest.raises(InputError, match="11 clients are there"):
        a_protocol().open(ABOUT, nothing_to_give().requests, [str(k) for k in range(11)], n_items=0)


def test_a_lattice_that_is_too_coarse_for_the_shares_is_refused_on_both_sides() -> None:
    coarse = nothing_to_give(replace(RELEASE, l2_bound=8, noise_multiplier=1.5))  # 12 units, 4.9 a share

    with pytest.raises(InputError, match="at least 5 are needed"):
        a_protocol().open(ABOUT, coarse.requests, [str(k) for k in range(CLIENTS)], n_items=0)


def test_there_is_room_for_the_noise_of_everybody() -> None:
    loud = replace(RELEASE, noise_multiplier=4e5)
    with_noise = a_protocol().packing(nothing_to_give(loud).requests).shifts["total"]
    everybodys = loud.noise_stddev * math.sqrt(CLIENTS / 6)

    assert (
        12 * everybodys / 2**with_noise
        < 2**31
        < 12 * everybodys / 2 ** (with_noise - 1) + 2 * CLIENTS * 2**24
    )
