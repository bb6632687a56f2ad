"""The residual task's public configuration: shares of the budget, stages, ranges."""

import itertools
import math
from dataclasses import replace

import pytest

from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import (
    Curvature,
    ResidualConfig,
    ResidualShares,
    Start,
    complete,
    shares_by_release,
)
from fedboard.common.algorithms.residual.releases import alternation, bias_round, spectral_start
from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig, from_written, with_noise
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.board import Catalogue
from fedboard.common.contribution import SumSource
from fedboard.common.contribution_bounding.clipping import LINEAR_BOUND
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import compose, mu_for
from tests.common.algorithms.conftest import a_residual_task, residual_boards

Options = tuple[Feedback, Curvature, Start, float | None, int]
OPTIONS = list(itertools.product(Feedback, Curvature, Start, [None, 0.5], [1, 3]))


def named(options: Options) -> dict[str, object]:
    return dict(zip(("feedback", "curvature", "start", "clip_quantile", "rounds"), options, strict=True))


@pytest.mark.parametrize("options", OPTIONS)
def test_shares_add_to_one_and_the_plan_lists_exactly_what_they_pay_for(
    options: Options,
) -> None:
    config = from_written(named(options), ResidualConfig)

    shares = shares_by_release(config, ResidualShares(clip=0.01, moment=0.05))
    task = Residual(with_noise(config, noise_multipliers(2.0, 1e-5, shares)))

    assert math.fsum(shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert min(shares.values()) > 0
    planned = [request.name for requests in task.plan() for request in requests]
    assert sorted(planned) == sorted(shares)
    clips = [name for name in shares if name.endswith("/clip")]
    assert len(clips) == (0 if config.clip_quantile is None else config.rounds - 1)
    matrices = {Curvature.PRIOR: 0, Curvature.RELEASED: config.rounds}
    assert sum(name.endswith("/curvature") for name in shares) == matrices[config.curvature]
    ridges = [name for name in shares if name.endswith("/ridges")]
    assert len(ridges) == (config.rounds - 1 if config.has_biases else 0)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_stage_asks_what_the_plan_says_with_its_noise(
    options: Options,
) -> None:
    task = a_residual_task(2.0, **named(options))

    boards, plan = residual_boards(task), task.plan()

    assert len(boards) == len(plan)
    assert not task.requests(boards[-1].successor())
    asked = [task.requests(board) for board in boards]
    for requests, planned in zip(asked, plan, strict=True):
        assert [(r.name, r.source) for r in requests] == [(r.name, r.source) for r in planned]
        for request in requests:
            assert request.release.noise_multiplier == task.settings.shared.noise_multipliers[request.name]
    spent = compose(r.release.noise_multiplier for requests in asked for r in requests)
    assert spent == pytest.approx(mu_for(2.0, 1e-5), rel=1e-9)
    assert spent <= mu_for(2.0, 1e-5)


def test_shares_are_what_they_are_called() -> None:
    config = ResidualConfig(rounds=3, clip_quantile=0.5, start=Start.SPECTRAL, curvature=Curvature.RELEASED)
    config = replace(config, moments_share=0.01)
    given = ResidualShares(
        users=0.002, ridges=0.3, counts=0.03, weighted_counts=0.05, bias=0.06, spectral=0.1, moment=0.2,
        clip=0.008, curvature=0.4, round_growth=1.0,
    )  # fmt: skip

    shares = shares_by_release(config, given)

    left = 1.0 - 0.01 - 0.03 - 0.05 - 0.06 - 0.1 - 0.008
    assert shares["moments"] == 0.01
    assert "users" not in shares
    assert shares["counts"] == 0.03
    assert shares["weighted-counts"] == 0.05
    assert shares["bias/moment"] == pytest.approx(0.2 * 0.06)
    assert shares["bias/linear"] == pytest.approx(0.8 * 0.06)
    assert shares["pairs"] == 0.1
    assert shares["round-1/clip"] == shares["round-2/clip"] == pytest.approx(0.004)
    for t in (1, 2, 3):
        of_round = left * t / 6
        assert shares[f"round-{t}/curvature"] == pytest.approx(0.4 * of_round)
        after = 0.6 * of_round
        if t > 1:
            assert shares[f"round-{t}/ridges"] == pytest.approx(0.3 * after)
            after *= 0.7
        assert shares[f"round-{t}/moment"] == pytest.approx(0.2 * after)
        assert shares[f"round-{t}/linear"] == pytest.approx(0.8 * after)
    presence = shares_by_release(replace(config, shared=RatingsConfig(feedback=Feedback.IMPLICIT)), given)
    assert presence["users"] == 0.002
    assert not {"moments", "bias/linear", "round-2/ridges"} & presence.keys()
    assert "round-2/ridges" not in shares_by_release(replace(config, ridge_evidence=False), given)
    assert shares_by_release(replace(config, moments_share=None), given)["moments"] == 0.005


@pytest.mark.parametrize(
    ("mu", "share"), [(0.01, 0.5), (0.0489, 0.5), (0.1, 0.12), (0.3, 0.0012 / 0.09), (1.0, 0.005)]
)
def test_the_moments_get_what_their_accuracy_needs_of_any_budget(mu: float, share: float) -> None:
    """1 000 users: the sum of their means has noise of deviation sqrt(3) / 0.0346, a twentieth of their number."""
    config = ResidualConfig()

    found = complete(config, given=(), mu=mu)

    assert found == replace(config, moments_share=found.moments_share)
    assert found.moments_share == pytest.approx(share, rel=0.01)
    multiplier = noise_multipliers(5.0, 1e-5, shares_by_release(found, ResidualShares()))["moments"]
    assert multiplier == pytest.approx(1 / (mu_for(5.0, 1e-5) * math.sqrt(share)), rel=0.01)
    if 0.05 < mu < 0.4:
        assert math.sqrt(3) / (mu * math.sqrt(share)) / 1000 == pytest.approx(0.05, rel=0.01)


def test_the_declared_bound_is_the_clipping_norm_in_real_units() -> None:
    task = a_residual_task(clip_norm=0.37, bias_clip_norm=0.21, bias_scale=0.8, vector_bound=1.2)

    for requests, norm in (
        (bias_round(task.settings, n_items=5), 0.21),
        (alternation(task.settings, 2, n_items=5), 0.37),
        (alternation(task.settings, 2, n_items=5, clip_norm=0.11), 0.11),
    ):
        (linear,) = (r for r in requests if r.source is SumSource.ITEM_LINEAR)
        assert linear.release.l2_bound * linear.release.grid_step == pytest.approx(norm, rel=1e-6)
        assert linear.release.l2_bound * linear.release.grid_step <= norm
        assert linear.release.l2_bound < LINEAR_BOUND
        assert real_stddev(linear) == pytest.approx(norm * linear.release.noise_multiplier, rel=1e-6)
        (moment,) = (r for r in requests if r.source is SumSource.QUADRATIC)
        bound = 0.8 if linear.name == "bias/linear" else 1.2
        assert moment.release.l2_bound * moment.release.grid_step == pytest.approx(bound**2)


def test_a_clipping_norm_that_follows_stays_where_the_grid_can_carry_it() -> None:
    task = a_residual_task(clip_quantile=0.5, clip_norm=0.4)
    for norm in (0.4 / 64, 4.0 * 1.3):
        (linear, *_) = alternation(task.settings, 1, n_items=3, clip_norm=norm)
        assert 1000 < linear.release.l2_bound <= LINEAR_BOUND


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rating_low": 5.0, "rating_high": 1.0}, "rating_high must be > rating_low"),
        ({"clip_norm": 5.3}, r"clip_norm must be at most 5\.2 \(no contribution is larger\)"),
        ({"bias_clip_norm": 1.0, "bias_scale": 0.2}, r"bias_clip_norm must be at most 0\.8"),
        ({"feedback": Feedback.IMPLICIT, "clip_norm": 1.4}, r"clip_norm must be at most 1\.3"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_written(settings, ResidualConfig)


def test_shares_that_leave_nothing_for_the_rounds_are_refused() -> None:
    with pytest.raises(InputError, match=r"shares\.users \+ shares\.counts .* must be < 1"):
        ResidualShares(bias=0.6, counts=0.4)
    with pytest.raises(InputError, match="before the first round together must be < 1"):
        shares_by_release(ResidualConfig(moments_share=0.9), ResidualShares())


def test_a_spectral_start_takes_small_catalogues_only() -> None:
    task = a_residual_task(start=Start.SPECTRAL)

    (request,) = spectral_start(task.settings, n_items=10_000)
    assert request.release.width == 50_005_000
    with pytest.raises(InputError, match="at most 10000 of them, got 10001; use start 'sketch'"):
        spectral_start(task.settings, n_items=10_001)


def test_a_catalogue_that_is_too_large_is_refused_before_anything_is_released() -> None:
    catalogue = Catalogue(item_ids=tuple(map(str, range(10_001))))

    with pytest.raises(InputError, match="use start 'sketch'"):
        a_residual_task(start=Start.SPECTRAL).first_board(catalogue)
    assert a_residual_task().first_board(catalogue).catalogue.n_items == 10_001
