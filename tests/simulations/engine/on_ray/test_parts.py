"""Exact sums on their way through a cluster: everybody in them, once, and of one computation in every lane."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.simulations.engine.on_ray import parts as module
from fedboard.simulations.engine.on_ray.jobs import rows_in, solved_part
from fedboard.simulations.engine.on_ray.parts import (
    Counted,
    Lane,
    Part,
    lanes_of,
    merged,
    parts_of,
    require_same,
)
from fedboard.simulations.engine.on_ray.runtime import OnRay, spans_of
from fedboard.simulations.streams import SpanWork

N_ITEMS = 50


def request(name: str, source: SumSource, rows: int, width: int) -> Request:
    release = GaussianRelease(
        name=name,
        rows=rows,
        width=width,
        layout="vector",
        grid_step=1.0,
        l2_bound=10,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=1.0,
        covers="tests",
    )
    return Request(source=source, release=release)


REQUESTS = (
    request("total", SumSource.TOTAL, 1, 4),
    request("counts", SumSource.ITEM_COUNT, N_ITEMS, 1),
    request("linear", SumSource.ITEM_LINEAR, N_ITEMS, 3),
)


def some_sums(seed: int) -> dict[str, IntArray]:
    rng = np.random.default_rng(seed)
    return {
        r.name: rng.integers(-1000, 1000, (r.release.rows, r.release.width), dtype=np.int64) for r in REQUESTS
    }


def a_span(start: int, stop: int, lanes: tuple[Lane, ...], seed: int = 0) -> list[Part]:
    return parts_of(some_sums(seed), lanes, start, stop)


@pytest.mark.parametrize("at_least", [1, 4, 1000])
def test_every_row_of_every_release_is_in_one_lane(at_least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LANES", 8)

    lanes = lanes_of(REQUESTS, at_least=at_least)

    for of in REQUESTS:
        rows = [row for lane in lanes if of.name in lane.names for row in range(lane.start, lane.stop)]
        assert rows == list(range(of.release.rows))
    assert len(lanes) <= 1 + 8


def test_lanes_of_merged_spans_are_the_sums_of_all() -> None:
    lanes, sums = lanes_of(REQUESTS, at_least=4), [some_sums(seed) for seed in range(3)]
    spans = [parts_of(of_span, lanes, 10 * k, 10 * k + 10) for k, of_span in enumerate(sums)]

    found = [merged([merged([spans[2][k], spans[0][k]]), spans[1][k]]) for k in range(len(lanes))]

    for lane, part in zip(lanes, found, strict=True):
        for name in lane.names:
            expected = sum(of_span[name] for of_span in sums)[lane.start : lane.stop]
            np.testing.assert_array_equal(part.sums[name], expected)
        assert [(one.start, one.stop) for one in part.counted] == [(0, 10), (10, 20), (20, 30)]
    np.testing.assert_array_equal(
        spans[0][0].sums["total"], some_sums(0)["total"]
    )  # nothing was added in place


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (9, 20), (4, 5), (0, 30)])
def test_nobody_is_counted_twice(start: int, stop: int) -> None:
    lanes = lanes_of(REQUESTS)

    with pytest.raises(PrivacyError, match="would be counted twice; nothing was released"):
        merged([a_span(0, 10, lanes)[0], a_span(start, stop, lanes, seed=1)[0]])


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_never_run_over_64_bits(sign: int) -> None:
    lanes = lanes_of(REQUESTS)
    large = {name: np.full_like(sums, sign * (1 << 60)) for name, sums in some_sums(0).items()}
    spans = [parts_of(large, lanes, 10 * k, 10 * k + 10)[1] for k in range(4)]

    assert abs(int(merged(spans[:3]).sums["counts"][0, 0])) == 3 << 60
    with pytest.raises(PrivacyError, match="'counts' does not fit 64-bit integers"):
        merged([merged(spans[:2]), merged(spans[2:])])


@pytest.mark.parametrize("spans", [[(0, 10)], [(10, 20)], [(0, 10), (9, 20)], [(0, 10), (0, 10), (10, 20)]])
def test_sums_over_too_few_or_over_somebody_twice_are_not_given_on(
    spans: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of the tasks of a round: what came back says whom it is over."""
    stream = SimpleNamespace(n_users=20, n_items=N_ITEMS)
    task = SimpleNamespace(plan=lambda: [REQUESTS])
    cluster = SimpleNamespace(n_cpus=2, put=lambda content: content)
    work = SpanWork(task=task, stream=stream, splitting=None, requests=(), backend="numpy")  # type: ignore[arg-type]
    clients = OnRay(cluster, work)  # type: ignore[arg-type]
    done = [SimpleNamespace(counted=Counted(*bounds, b"")) for bounds in spans]
    monkeypatch.setattr(clients, "_summed", lambda *_: (done, []))

    with pytest.raises(PrivacyError, match="not over users 0:20, each counted once"):
        clients.gather(None, REQUESTS)  # type: ignore[arg-type]


def test_lanes_of_two_computations_of_one_span_are_never_noised() -> None:
    """A worker is lost after some of its parts were merged; a span that is done again may differ on another CPU."""
    lanes = lanes_of(REQUESTS)
    first, again = a_span(0, 10, lanes, seed=0), a_span(0, 10, lanes, seed=1)
    told = first[0].counted
    require_same(first[1].counted, told)

    with pytest.raises(
        PrivacyError, match=r"users 0:10 were computed again .* differently; nothing was released"
    ):
        solved_part(again[1], told, lanes[1], REQUESTS[1:], b"", b"")
    with pytest.raises(PrivacyError, match="came out differently"):
        rows_in(again[1], told, ["counts"])
    with pytest.raises(PrivacyError, match="came out differently"):
        rows_in(replace(first[1], counted=()), told, ["counts"])


@pytest.mark.parametrize(
    ("n_users", "n_cpus"), [(1, 1), (2048, 4), (100_000, 1), (100_001, 64), (10**8, 1000)]
)
def test_spans_are_all_users_once(n_users: int, n_cpus: int) -> None:
    spans = spans_of(n_users, n_cpus)

    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == n_users
    assert len(spans) <= max(32, 4 * n_cpus)
    assert all(span.stop - span.start >= min(2048, n_users) for span in spans[:-1])


def test_spans_stay_below_what_64_bits_hold() -> None:
    assert max(span.stop - span.start for span in spans_of(10**9, 1)) == 1 << 22
