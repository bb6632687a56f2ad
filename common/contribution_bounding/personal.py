"""Personal levels of privacy: a user who wants a smaller epsilon than the run's gives less of herself.

With s in (0, 1] her contribution to every release has L2 norm at most s times the release's bound, so that the
same noise gives her s mu where the run's mu is everybody's (Gaussian releases, exactly). On the grid her vector
and her responses are multiplied by sqrt(s), her totals by s, all toward zero, so that in the item statistics
she has weight s: ``A_i: s w v v^T``, ``b_i: s w r v``, ``G: s v v^T``. Where counts are asked her weights are
multiplied by s; her responses then stay as they are. A round that asks for counts and item statistics together
gets less of her than s in ``b_i`` (s^1.5 with G, else s): the bounds hold, and no scaling of what they share
gives s for all.

Reference: Liu, Wang and Smola (2015), sec. 3.1 and theorem 2 (personalised budgets by weights).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import FloatArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource, required
from fedboard.common.contribution_bounding.clipping import check_rows
from fedboard.common.errors import InputError, OutOfRangeError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, mu_for
from fedboard.common.privacy.adjacency import sensitivity_factor
from fedboard.common.privacy.events import is_amplified
from fedboard.common.privacy.releases.gaussian import GaussianRelease

SCALE_STEPS = 1 << 12
"""A scale is a multiple of 1 / 4096: times a bound that 4096 divides it is a whole number."""

_ROOT_STEPS = 1 << 6
_ObjectArray = NDArray[np.object_]


def personal_scale(epsilon: float, delta: float, mu_run: float) -> float:
    """Largest scale s that keeps a user within an epsilon of her own: ``s mu_run <= mu_for(epsilon, delta)``.

    Args:
        epsilon: hers, >= 0, at most the run's. Public.
        delta: in (0, 1), hers. Public.
        mu_run: of all releases of the run together, > 0. Public.

    Returns:
        A multiple of ``1 / SCALE_STEPS`` in (0, 1], rounded down.

    Raises:
        PrivacyError: so little that it rounds to nothing, or mu_run is not a finite number > 0.
    """
    if not 0 < mu_run < np.inf:
        raise OutOfRangeError(f"mu of a run must be a finite number > 0, got {mu_run}")
    steps = min(int(mu_for(epsilon, delta) / mu_run * SCALE_STEPS), SCALE_STEPS)
    if steps == 0:
        raise _too_strict(epsilon)
    return steps / SCALE_STEPS


def plan_scale(releases: Sequence[GaussianRelease], epsilon: float, delta: float) -> float:
    """Largest scale with which all releases of a plan together keep a user within an epsilon of her own.

    As ``personal_scale``, and exact also where a bound is not a multiple of ``SCALE_STEPS`` and hers is rounded
    up.

    Raises:
        PrivacyError: as for ``personal_scale`` and ``personal_release``.
    """
    allowed = mu_for(epsilon, delta)
    scale = personal_scale(epsilon, delta, compose(release.noise_multiplier for release in releases))
    while compose(personal_release(release, scale).noise_multiplier for release in releases) > allowed:
        scale -= 1 / SCALE_STEPS
        if scale == 0:
            raise _too_strict(epsilon)
    return scale


def personal_release(release: GaussianRelease, scale: float) -> GaussianRelease:
    """A release as a user with this scale sees it: the same noise, and her own smaller bound.

    Args:
        release: public.
        scale: s, a multiple of ``1 / SCALE_STEPS`` in (0, 1]. Public.

    Returns:
        The release with ``l2_bound = ceil(s l2_bound)`` and ``noise_multiplier = noise_stddev`` / her
        sensitivity, hence her own mu.

    Raises:
        PrivacyError: the release is not Gaussian or is amplified by sampling, where the noise that others
            need says nothing about her; or the scale is not one.
    """
    steps = _steps(scale)
    if steps == SCALE_STEPS:
        return release
    _require_scalable(release)
    bound = -(-release.l2_bound * steps // SCALE_STEPS)
    sensitivity = bound * sensitivity_factor(release.adjacency, same_sign=release.same_sign)
    return replace(release, l2_bound=bound, noise_multiplier=release.noise_stddev / sensitivity)


def scale_contribution(
    contribution: Contribution, requests: Sequence[Request], scales: FloatArray
) -> Contribution:
    """The contribution in which each user gives her own part: every row still whole numbers, toward zero.

    Guarantee: a row within the bounds of the requests is afterwards within s times each of them, exactly.

    Args:
        contribution: within the bounds. Private.
        requests: what is asked; weights are scaled where counts are among it. Public.
        scales: float64, shape (n_users,), multiples of ``1 / SCALE_STEPS`` in (0, 1].

    Raises:
        PrivacyError: a release cannot be scaled, see ``personal_release``.
        InputError: not one scale a user.
    """
    steps = _checked_steps(contribution, requests, scales)
    of_entry = np.repeat(steps, np.diff(contribution.indptr))
    asked = {request.source for request in requests}
    counted = SumSource.ITEM_COUNT in asked
    weights, vectors, responses = contribution.weights, contribution.vectors, contribution.responses
    if weights is not None and counted:
        weights = _times(weights, of_entry).astype(np.int16)
    if responses is not None and not (counted and SumSource.ITEM_PAIRS not in asked):
        responses = _times_root(responses, of_entry)
    if vectors is not None and not (counted and SumSource.QUADRATIC not in asked):
        vectors = _times_root(vectors, steps[:, None])
    return replace(
        contribution,
        weights=weights,
        vectors=vectors,
        responses=responses,
        totals={name: _times(rows, steps[:, None]) for name, rows in contribution.totals.items()},
    )


def require_personal_bounds(
    contribution: Contribution, requests: Sequence[Request], scales: FloatArray
) -> None:
    """Check on the device, before anything is sent, that each row keeps s times every bound, in exact integers.

    Args:
        contribution: what is about to be sent. Private.
        requests: public.
        scales: as for ``scale_contribution``.

    Raises:
        PrivacyError: a row does not; which one and by how much is not said.
        InputError: an ingredient is missing, or not one scale a user.
    """
    steps = _checked_steps(contribution, requests, scales)
    broken = check_rows(
        contribution.indptr,
        contribution.items,
        n_items=contribution.n_items,
        vectors=contribution.vectors,
        weights=contribution.weights,
        responses=contribution.responses,
    )
    if broken.any():
        raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
    for request in requests:
        allowed = steps.astype(object) * request.release.l2_bound
        if (squared_norms(contribution, request) * SCALE_STEPS**2 > allowed * allowed).any():
            raise PrivacyError("a contribution breaks the bound of its user's own epsilon; nothing was sent")


def squared_norms(contribution: Contribution, request: Request) -> _ObjectArray:
    """Exact squared L2 norm of each user's contribution to one release.

    Args:
        contribution: whose rows ``check_rows`` has passed. Private.
        request: public.

    Returns:
        Python ints as objects, shape (n_users,), squared grid units in isometric coordinates.

    Raises:
        InputError: an ingredient that the release needs is missing.
    """
    match request.source:
        case SumSource.TOTAL:
            rows = required(contribution.totals.get(request.name), request.name).astype(object)
            return _objects((rows * rows).sum(axis=1))
        case SumSource.ITEM_COUNT:
            return _row_sums(contribution, _weights(contribution))
        case SumSource.ITEM_LINEAR:
            parts = _weights(contribution) * required(contribution.responses, "responses")
            return _objects(_row_sums(contribution, parts) * _vector_squares(contribution))
        case SumSource.ITEM_QUADRATIC:
            weights = _row_sums(contribution, _weights(contribution))
            return _objects(weights * _vector_squares(contribution) ** 2)
        case SumSource.QUADRATIC:
            return _objects(_vector_squares(contribution) ** 2)
        case SumSource.ITEM_PAIRS:
            responses = required(contribution.responses, "responses").astype(np.int64)
            return _objects(_row_sums(contribution, responses) ** 2)


def _too_strict(epsilon: float) -> PrivacyError:
    return PrivacyError(
        f"epsilon {epsilon:g} is so far below this run's that nothing could be given; such a user cannot take part"
    )


def _require_scalable(release: GaussianRelease) -> None:
    event = release.event()
    if event["mechanism"] != "gaussian" or is_amplified(event):
        raise PrivacyError(
            f"release {release.name!r} has no personal levels: they need Gaussian noise and a run without "
            "Poisson participation"
        )


def _steps(scale: float) -> int:
    steps = scale * SCALE_STEPS
    if not 0 < steps <= SCALE_STEPS or steps != int(steps):
        raise PrivacyError(f"a scale must be a multiple of 1/{SCALE_STEPS} in (0, 1], got {scale}")
    return int(steps)


def _checked_steps(contribution: Contribution, requests: Sequence[Request], scales: FloatArray) -> IntArray:
    if scales.shape != (contribution.n_users,):
        raise InputError("scales must hold one number per user")
    steps = scales * SCALE_STEPS
    if not (np.isfinite(steps) & (steps > 0) & (steps <= SCALE_STEPS) & (steps == np.floor(steps))).all():
        raise PrivacyError(f"scales must be multiples of 1/{SCALE_STEPS} in (0, 1]")
    if (steps < SCALE_STEPS).any():
        for request in requests:
            _require_scalable(request.release)
    return steps.astype(np.int64)


def _times(values: NDArray[np.integer[Any]], steps: IntArray) -> IntArray:
    """``values * steps / SCALE_STEPS`` toward zero, in whole numbers that do not overflow."""
    whole, rest = np.divmod(np.abs(values.astype(np.int64)), SCALE_STEPS)
    scaled: IntArray = np.sign(values) * (whole * steps + rest * steps // SCALE_STEPS)
    return scaled


def _times_root(values: ShortArray, steps: IntArray) -> ShortArray:
    """``values * sqrt(steps / SCALE_STEPS)`` toward zero: the root of a whole number below 2^52, rounded down."""
    roots = np.floor(np.sqrt(np.square(values, dtype=np.int64) * steps)).astype(np.int64)
    return (np.sign(values) * (roots // _ROOT_STEPS)).astype(np.int16)


def _weights(contribution: Contribution) -> IntArray:
    return required(contribution.weights, "weights").astype(np.int64)


def _row_sums(contribution: Contribution, values: IntArray) -> _ObjectArray:
    """Sums of squares over rows; of checked rows they are below 2^53."""
    running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values * values)])
    return _objects(np.diff(running[contribution.indptr]))


def _vector_squares(contribution: Contribution) -> _ObjectArray:
    vectors = required(contribution.vectors, "vectors").astype(np.int64)
    return _objects(np.einsum("nd,nd->n", vectors, vectors))


def _objects(values: NDArray[Any]) -> _ObjectArray:
    return np.asarray(values, dtype=object)
