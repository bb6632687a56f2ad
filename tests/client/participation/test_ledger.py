"""The device's own ledger: nothing is given that is not written down, and nothing beyond her own limit."""

import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.client.participation.ledger import DeviceLedger, GivenRelease
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.personal import (
    SCALE_STEPS,
    personal_release,
)
from fedboard.common.errors import BudgetExceededError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from tests.common.algorithms.conftest import a_task

DELTA = 1e-5
TASK = a_task(epsilon=5.0)
PLAN = TASK.plan()


def a_limit(epsilon: float = 8.0, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Budget:
    return Budget(epsilon=epsilon, delta=DELTA, adjacency=adjacency)


def a_device(path: Path, epsilon: float = 8.0) -> DeviceLedger:
    return DeviceLedger.create(path / "device.sqlite", a_limit(epsilon))


def own_epsilon(requests: list[Request], scale: float = 1.0) -> float:
    multipliers = [personal_release(r.release, scale).noise_multiplier for r in requests]
    return epsilon_of(DELTA, mu=compose(multipliers))


def forged(request: Request, **fields: Any) -> Request:
    """A request as a hostile server's message could make it, past every check of the constructor."""
    release = object.__new__(GaussianRelease)
    for name in GaussianRelease.__slots__:
        object.__setattr__(release, name, fields.get(name, getattr(request.release, name)))
    return Request(source=fields.get("source", request.source), release=release)


def test_a_round_is_booked_before_it_is_answered(tmp_path: Path) -> None:
    with a_device(tmp_path) as device:
        receipts = device.admit("movies", PLAN[0])

        assert len(receipts) == len(PLAN[0])
        assert [(given.run, given.release) for given in device.given()] == [
            ("movies", request.name) for request in PLAN[0]
        ]
        assert device.spent().epsilon == pytest.approx(own_epsilon(list(PLAN[0])), rel=1e-9)


def test_what_she_gave_is_listed_with_her_own_part(tmp_path: Path) -> None:
    request = PLAN[0][0]
    with a_device(tmp_path) as device:
        device.admit("movies", [request], scale=0.25)

        (given,) = device.given()
    assert given == GivenRelease(
        run="movies",
        release=request.name,
        covers=request.release.covers,
        scale=0.25,
        noise_multiplier=pytest.approx(4 * request.release.noise_multiplier, rel=1e-12),
    )


def test_the_record_outlives_the_process(tmp_path: Path) -> None:
    with a_device(tmp_path) as device:
        device.admit("movies", PLAN[0])
        before = device.given(), device.spent()

    with DeviceLedger.open(tmp_path / "device.sqlite") as device:
        assert (device.given(), device.spent()) == before
        assert device.limit == a_limit()
        with pytest.raises(PrivacyError, match="booked already"):
            device.admit("movies", PLAN[0])


def test_a_tampered_record_is_noticed(tmp_path: Path) -> None:
    with a_device(tmp_path) as device:
        device.admit("movies", PLAN[0])
    connection = sqlite3.connect(tmp_path / "device.sqlite")
    text = connection.execute("SELECT event FROM events WHERE seq = 1").fetchone()[0]
    less = {**json.loads(text), "noise_multiplier": 1e6}
    connection.execute("UPDATE events SET event = ? WHERE seq = 1", (json.dumps(less),))
    connection.commit()
    connection.close()

    with pytest.raises(PrivacyError, match="tampered"):
        DeviceLedger.open(tmp_path / "device.sqlite")


def test_several_runs_add_up(tmp_path: Path) -> None:
    requests = [request for asked in PLAN for request in asked]
    with a_device(tmp_path, epsilon=20.0) as device:
        for run in ("movies", "books", "films"):
            for asked in PLAN:
                device.admit(run, asked)

        assert device.spent().epsilon == pytest.approx(own_epsilon(requests * 3), rel=1e-9)
        assert device.spent().epsilon > 1.7 * own_epsilon(requests)  # about sqrt 3 times


def test_beyond_her_limit_nothing_of_a_round_is_booked(tmp_path: Path) -> None:
    with a_device(tmp_path, epsilon=own_epsilon([*PLAN[0], *PLAN[1][:1]])) as device:
        device.admit("movies", PLAN[0])
        before = device.given()

        with pytest.raises(BudgetExceededError):
            device.admit("movies", PLAN[1])
        assert device.given() == before
        device.admit("movies", PLAN[1][:1])  # the first of the two fits alone


def test_one_bad_request_spoils_the_round(tmp_path: Path) -> None:
    with a_device(tmp_path) as device:
        with pytest.raises(PrivacyError):
            device.admit("movies", [*PLAN[0][:-1], forged(PLAN[0][-1], noise_multiplier=0.0)])
        assert device.given() == ()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": 1e-200}, "mu must be"),
        ({"noise_multiplier": 1e307}, "cannot be read|noise_stddev"),
        ({"l2_bound": None}, "l2_bound"),
        ({"l2_bound": 0}, "l2_bound"),
        ({"l2_bound": math.inf}, "l2_bound"),
        ({"l2_bound": 10**400}, "l2_bound must be an int > 0 and < 2"),
        ({"l2_bound": 2.5}, "l2_bound"),
        ({"adjacency": "none"}, "adjacency"),
        ({"adjacency": None}, "adjacency"),
        ({"adjacency": Adjacency.REPLACE}, "adjacency replace, her limit for add-remove"),
        ({"participation": {"kind": "sometimes"}}, "participation"),
        ({"participation": {"kind": "poisson", "probability": 2.0, "round": "r"}}, "probability"),
        ({"participation": 3}, "participation"),
        ({"layout": "triangular"}, "layout"),
        ({"grid_step": 0.0}, "grid_step"),
        ({"same_sign": "yes"}, "same_sign"),
        ({"name": ""}, "name of a release"),
        ({"name": "counts\x1b[2J"}, "name of a release"),
        ({"name": "x" * 201}, "name of a release"),
        ({"name": 7}, "name of a release"),
        ({"covers": None}, "covers"),
        ({"covers": "\ud800"}, "covers"),
        ({"source": "everything"}, "cannot be read"),
        ({"source": SumSource.ITEM_LINEAR, "same_sign": True}, "never cancel"),
        ({"layout": "symmetric"}, "noise is that of matrices"),
    ],
)
def test_a_request_that_promises_nothing_is_refused(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    counts = next(request for request in PLAN[0] if request.name == "counts")
    with a_device(tmp_path) as device:
        with pytest.raises(PrivacyError, match=says):
            device.admit("movies", [forged(counts, **fields)])
        assert device.given() == ()


_ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**320),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.floats(), max_size=2),
    st.just({"kind": "poisson"}),
    st.just({"kind": ["poisson"]}),
)


@pytest.fixture(scope="module")
def patient_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceLedger]:
    with a_device(tmp_path_factory.mktemp("device"), epsilon=1e9) as device:
        yield device


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    fields=st.dictionaries(st.sampled_from([*GaussianRelease.__slots__, "source"]), _ANYTHING, min_size=1),
    scale=st.sampled_from([1.0, 0.5, 0.3, math.nan, 0.0]),
)
def test_no_message_crashes_the_device_or_is_given_for_free(
    patient_device: DeviceLedger, fields: dict[str, Any], scale: float
) -> None:
    before, spent = patient_device.given(), patient_device.spent().epsilon
    try:
        patient_device.admit(f"run {len(before)}", [forged(PLAN[0][0], **fields)], scale=scale)
    except PrivacyError:
        assert patient_device.given() == before
    else:
        assert len(patient_device.given()) == len(before) + 1
        assert patient_device.spent().epsilon >= spent


@pytest.mark.parametrize("requests", [[None], [3], "counts", None, [PLAN[0][0], object()], 5])
def test_what_is_no_request_at_all_is_refused(tmp_path: Path, requests: Any) -> None:
    with a_device(tmp_path) as device, pytest.raises(PrivacyError, match="cannot be read"):
        device.admit("movies", requests)


def test_a_round_without_requests_is_refused(tmp_path: Path) -> None:
    with a_device(tmp_path) as device, pytest.raises(PrivacyError, match="without requests"):
        device.admit("movies", [])


@pytest.mark.parametrize("run", ["", "a:b", "two\nlines", None, 3, "x" * 300])
def test_the_name_of_a_run_can_be_shown_to_her(tmp_path: Path, run: Any) -> None:
    with a_device(tmp_path) as device, pytest.raises(PrivacyError, match="name of a run"):
        device.admit(run, PLAN[0])


@pytest.mark.parametrize("scale", [0.0, 1.5, math.nan, 0.3, -1.0])
def test_a_scale_that_is_none_is_refused(tmp_path: Path, scale: float) -> None:
    with a_device(tmp_path) as device, pytest.raises(PrivacyError, match="scale"):
        device.admit("movies", PLAN[0], scale=scale)


def sampled(asked: tuple[Request, ...], probability: float) -> list[Request]:
    stated = {"kind": "poisson", "probability": probability, "round": "round-1"}
    return [replace(r, release=replace(r.release, participation=stated)) for r in asked]


def test_amplification_is_not_believed(tmp_path: Path) -> None:
    with a_device(tmp_path) as device:
        device.admit("movies", sampled(PLAN[1], 1e-3))

        assert device.spent().epsilon == pytest.approx(own_epsilon(list(PLAN[1])), rel=1e-9)
        with pytest.raises(PrivacyError, match="no personal levels"):
            device.admit("movies", sampled(PLAN[2], 1e-3), scale=0.5)


def test_the_largest_scale_uses_her_limit_up_and_keeps_it(tmp_path: Path) -> None:
    limit = 2.0
    with a_device(tmp_path, epsilon=limit) as device:
        device.admit("books", PLAN[0])
        scale = device.largest_scale(PLAN)
        for asked in PLAN:
            device.admit("movies", asked, scale=scale)

        assert 0 < scale < 1
        assert 0.99 * limit < device.spent().epsilon <= limit


def test_one_step_above_the_largest_scale_does_not_fit(tmp_path: Path) -> None:
    with a_device(tmp_path, epsilon=2.0) as device:
        scale = device.largest_scale(PLAN) + 1 / SCALE_STEPS
        for asked in PLAN[:-1]:
            device.admit("movies", asked, scale=scale)
        with pytest.raises(BudgetExceededError):
            device.admit("movies", PLAN[-1], scale=scale)


def test_a_plan_fits_whole_or_not_at_all(tmp_path: Path) -> None:
    with a_device(tmp_path, epsilon=9.0) as device:
        assert device.largest_scale(PLAN) == 1.0
        assert device.largest_scale([sampled(PLAN[1], 0.1)]) == 1.0
    (tmp_path / "tight").mkdir()
    with a_device(tmp_path / "tight", epsilon=1e-6) as device:
        assert device.largest_scale(PLAN) == 0.0
        assert device.largest_scale([sampled(PLAN[1], 0.1)]) == 0.0


def test_a_plan_for_another_adjacency_never_fits(tmp_path: Path) -> None:
    with a_device(tmp_path) as device, pytest.raises(PrivacyError, match="adjacency"):
        device.largest_scale(a_task(adjacency=Adjacency.REPLACE).plan())
