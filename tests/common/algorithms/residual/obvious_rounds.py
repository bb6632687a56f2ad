"""Rounds of residual alternating minimisation with loops: what the tests hold the task against."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import sqrtm

from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import (
    Curvature,
    ResidualConfig,
    releases_ridges,
)
from fedboard.common.algorithms.shared.levels import LikelyCounts, NoisySums, posterior_effects
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.releases.noise import SeededNoise
from tests.common.algorithms.residual.obvious_beliefs import (
    believed_counts,
    believed_curvature,
    believed_moment,
    prior_beyond_noise,
    prior_by_moments,
    shrunk,
)
from tests.common.algorithms.residual.obvious_contributions import (
    CANDIDATES,
    Sums,
    known_coordinates,
    ridge_of,
    spread_of,
    sums_of,
)


def noised(task: Residual, board: Board, sums: Sums, noise: SeededNoise, *, t: int, clip_norm: float) -> Sums:
    """The same with noise of the same streams, and without the low bits that are not published."""
    s, z = task.settings, task.settings.shared.noise_multipliers
    releases = {r.name: r.release for r in task.requests(board)}
    prefix, bound = (f"round-{t}", s.vector_bound) if t else ("bias", s.bias_scale)
    upper = np.triu_indices(sums.moment.shape[0])

    def published(name: str, exact: np.ndarray, deviation: float | np.ndarray) -> np.ndarray:
        unit, step = releases[name].grid_step, releases[name].published_step
        draws = noise.stream(name).normal(0, exact.size).reshape(exact.shape)
        noisy = exact + np.rint(z[name] * deviation * draws / unit) * unit
        return np.floor(noisy / step + 1e-6) * step

    def symmetric(name: str, exact: np.ndarray) -> np.ndarray:
        deviations = bound**2 * np.where(upper[0] == upper[1], 1.0, np.sqrt(0.5))
        return full_matrices(published(name, exact[:, *upper], deviations), exact.shape[1])

    found = sums
    if t == 0:
        counts = published("weighted-counts", sums.weighted_counts, 1.0)
        found = replace(found, weighted_counts=counts)
    if f"{prefix}/linear" in releases:
        linear = published(f"{prefix}/linear", sums.linear, clip_norm)
        found = replace(
            found,
            linear=linear.astype(np.float32).astype(np.float64),
            moment=symmetric(f"{prefix}/moment", sums.moment[None])[0],
        )
    if t > 0 and releases_ridges(s, t):
        found = replace(found, ridges=published(f"{prefix}/ridges", sums.ridges, 1.0))
    if t > 0 and s.curvature is Curvature.RELEASED:
        found = replace(found, curvature=symmetric(f"{prefix}/curvature", sums.curvature))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What the server knows before a round of the items that are learnt."""

    rows: np.ndarray
    counts: np.ndarray
    c: np.ndarray
    unobserved: np.ndarray
    design: np.ndarray
    count_variances: np.ndarray
    rating_weights: np.ndarray
    """What a rating of each item weighs on average."""
    spread: float

    @staticmethod
    def of(task: Residual, board: Board, weighted: np.ndarray) -> "Public":
        s = task.settings
        rows = np.array([i for i, learnt in enumerate(board.arrays["learnt"]) if learnt])
        counts, omega, c = (
            board.arrays["item_counts"][rows],
            board.arrays["item_weights"][rows],
            weighted[rows],
        )
        of_user = omega * c.sum() / sum(n * o for n, o in zip(counts, omega, strict=True))
        logs = np.log(counts)
        known = [] if task.features is None else list(task.features[rows].T)
        design = np.column_stack([np.ones(counts.size), (logs - logs.mean()) / logs.std(), *known])
        return Public(
            rows=rows,
            counts=counts,
            c=c,
            unobserved=s.item_unobserved_weight * float(board.arrays["population"][0]) * of_user,
            design=design,
            count_variances=board.arrays.get("count_variances", np.zeros(omega.size + rows.max() + 1))[rows],
            rating_weights=np.array(
                [
                    min(float(board.arrays["population"][0]) / c.sum() if s.has_biases else weight / n, 1.0)
                    for weight, n in zip(c, counts, strict=True)
                ]
            ),
            spread=spread_of(s, board),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of the biases, in stars, and how precisely."""

    values: np.ndarray
    precisions: np.ndarray
    alone: bool = False
    """Without factors."""

    @staticmethod
    def before(s: ResidualConfig, board: Board) -> "Measured | None":
        if "bias_precisions" not in board.arrays or s.bias_memory == 0.0:
            return None
        return Measured(
            values=board.arrays["bias_measured"].astype(np.float64),
            # Without factors a bias means the same in every round.
            precisions=(s.bias_memory if board.arrays["item_factors"].any() else 1.0)
            * board.arrays["bias_precisions"].astype(np.float64),
            alone=not board.arrays["item_factors"].any(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a round makes of the items that are learnt."""

    coordinates: np.ndarray
    measured: Measured
    bias_variance: float
    """In units of bias_scale squared."""


def stepped(
    s: ResidualConfig,
    known: Public,
    start: np.ndarray,
    linear: np.ndarray,
    curvature: np.ndarray,
    moment: np.ndarray,
    stddev: float,
    before: Measured | None = None,
) -> Step:
    """One item step and its shrinkage, of the items that are learnt."""
    values = np.empty_like(start)
    noise, scatter = np.empty_like(curvature), np.empty_like(curvature)
    for i, weight in enumerate(known.rating_weights):
        whole = curvature[i] + known.unobserved[i] * moment
        gradient = linear[i] - known.unobserved[i] * moment @ start[i]
        inverse = np.linalg.inv(whole)
        values[i] = start[i] + s.step * inverse @ gradient
        of_ratings = s.noise_variance * known.spread**2 * weight * curvature[i]
        noise[i] = s.step**2 * stddev**2 * inverse @ inverse
        scatter[i] = s.step**2 * inverse @ of_ratings @ inverse
    now = values[:, 0] * s.bias_scale
    alone = s.has_biases and values.shape[1] == 1
    if not alone:
        noise = noise + scatter
    told = Measured(values=now, precisions=1.0 / (noise[:, 0, 0] * s.bias_scale**2))
    if before is not None:
        if before.alone and not alone:
            variances = 1.0 / before.precisions + scatter[:, 0, 0] * s.bias_scale**2
            before = replace(before, precisions=1.0 / variances)
        values, noise = told_twice(s, values, noise, before)
        both = told.precisions + before.precisions
        mean = (told.precisions * now + before.precisions * before.values) / both
        told = Measured(values=mean, precisions=both)
    if alone:
        noise = noise + scatter  # the same ratings in every round: their scatter does not average out
    fitted = prior_beyond_noise if s.has_biases else prior_by_moments
    prior, spread = fitted(values, noise, known.design, s.prior_ridge)
    if alone:
        effects = biases_alone(s, known, told) / s.bias_scale
        return Step(coordinates=effects[:, None], measured=told, bias_variance=float(spread[0, 0]))
    found = shrunk(values, noise, prior, spread, s.prior_inflation)
    return Step(coordinates=found, measured=told, bias_variance=float(spread[0, 0]))


def biases_alone(s: ResidualConfig, known: Public, told: Measured) -> np.ndarray:
    """In stars, from sums of deviations: c_i times what was measured."""
    values, variances = np.empty(known.c.size), np.empty(known.c.size)
    for i, (c, precision) in enumerate(zip(known.c, told.precisions, strict=True)):
        values[i], variances[i] = c * told.values[i], c**2 / precision
    mean_weight = sum(w * c for w, c in zip(known.rating_weights, known.c, strict=True)) / sum(known.c)
    return posterior_effects(
        NoisySums(values=values, variances=variances),
        LikelyCounts(mean=known.c, variance=known.count_variances),
        spread=known.spread,
        mean_weight=mean_weight,
    )


def told_twice(
    s: ResidualConfig, values: np.ndarray, noise: np.ndarray, before: Measured
) -> tuple[np.ndarray, np.ndarray]:
    """A second measurement of the first coordinate joins: precisions are added."""
    means, rest = np.empty_like(values), np.empty_like(noise)
    for i in range(len(values)):
        first, second = np.linalg.inv(noise[i]), np.zeros_like(noise[i])
        second[0, 0] = before.precisions[i] * s.bias_scale**2
        right = first @ values[i]
        right[0] += second[0, 0] * before.values[i] / s.bias_scale
        rest[i] = np.linalg.inv(first + second)
        means[i] = rest[i] @ right
    return means, rest


def explores(task: Residual, board: Board, variance: float, known: Public, t: int, clip_norm: float) -> float:
    """Whether factors that vary as biases do would be seen in alternation t, or cost little: 1, or 0."""
    s, c = task.settings, known.c
    stddev = s.shared.noise_multipliers[f"round-{t}/linear"] * clip_norm * spread_of(s, board)
    width, usual = s.rank + 1, 0.6 * s.vector_bound**2 / (s.rank + 1)
    noise = np.array([(stddev / (weight * usual)) ** 2 for weight in c])
    trust = np.array([1.0 / (value + variance) ** 2 for value in noise])
    carried = sum(trust * noise) ** 2 / sum((trust * noise) ** 2)
    seen = variance * sum(trust) / sum(trust * noise)
    own = board.arrays["item_counts"].sum() / board.arrays["population"][0] - 1.0
    told = max(own, 0.0) * 3.0 * variance * s.bias_scale**2 / known.spread**2
    told /= told + 1.0
    found = told >= 0.5 and 1.0 + told * 3.0 * seen > (1.0 + np.sqrt(width / max(carried, 1.0))) ** 2
    scatter = s.noise_variance * known.spread**2 * sum(known.rating_weights * c * c) / sum(c)
    usually = max(own, 0.0) * 0.3 / (max(own, 0.0) * 0.3 + 1.0)
    return float(found or (usually >= 0.5 and stddev**2 < usually * scatter * usual))


def remembered(s: ResidualConfig, measured: Measured) -> dict[str, np.ndarray]:
    if not s.has_biases or s.bias_memory == 0.0 or s.head_fraction < 1.0:
        return {}
    return {"bias_measured": measured.values, "bias_precisions": measured.precisions}


def evidence_after(task: Residual, board: Board, told: np.ndarray, t: int) -> dict[str, np.ndarray]:
    """What is known of the candidates, and the ridge that follows."""
    s = task.settings
    if not releases_ridges(s, t):
        return {}
    evidence = told / s.shared.noise_multipliers[f"round-{t}/ridges"] ** 2
    if "ridge_evidence" in board.arrays:
        evidence = evidence + 0.6 * board.arrays["ridge_evidence"]
    best = min(range(len(CANDIDATES)), key=lambda k: evidence[k])
    ridge = CANDIDATES[best] * spread_of(s, board) ** 2 if evidence[best] < 0 else ridge_of(s, board)
    return {"ridge_evidence": evidence, "user_ridge": np.array([ridge])}


def bias_round(task: Residual, cohort: Cohort, board: Board, noise: SeededNoise) -> dict[str, np.ndarray]:
    s, n = task.settings, float(board.arrays["population"][0])
    c_norm, unit = s.bias_clip_norm, spread_of(s, board)
    exact = sums_of(task, cohort, board, t=0, clip_norm=c_norm)
    sums = noised(task, board, exact, noise, t=0, clip_norm=c_norm)
    rows = np.flatnonzero(board.arrays["learnt"])
    weighted, doubt = np.ones(cohort.n_items), np.zeros(cohort.n_items)
    of_rows = sums.weighted_counts[rows], board.arrays["item_counts"][rows]
    weighted[rows], doubt[rows] = believed_counts(task, *of_rows)
    if not s.has_biases:
        return {"weighted_counts": weighted}
    known = Public.of(task, replace(board, arrays={**board.arrays, "count_variances": doubt}), weighted)
    noise_of_moment = s.shared.noise_multipliers["bias/moment"] * s.bias_scale**2
    moment = believed_moment(sums.moment, stddev=noise_of_moment, n=n, bound=s.bias_scale)
    curvature = known.c[:, None, None] * moment
    stddev = s.shared.noise_multipliers["bias/linear"] * c_norm * unit
    biases = np.zeros(cohort.n_items)
    start = np.zeros((rows.size, 1))
    step = stepped(s, known, start, unit * sums.linear[rows], curvature, moment, stddev)
    biases[rows] = step.coordinates[:, 0] * s.bias_scale
    explored = explores(task, board, step.bias_variance, known, 1, s.clip_norm)
    return {
        "weighted_counts": weighted,
        "count_variances": doubt,
        "item_biases": biases,
        "explores": np.array([explored]),
        **remembered(s, step.measured),
    }


def alternation(
    task: Residual, cohort: Cohort, board: Board, noise: SeededNoise, *, t: int
) -> dict[str, np.ndarray]:
    s, n = task.settings, float(board.arrays["population"][0])
    clip_norm = float(board.arrays["clip_norm"][0]) if "clip_norm" in board.arrays else s.clip_norm
    unit = spread_of(s, board)
    exact = sums_of(task, cohort, board, t=t, clip_norm=clip_norm)
    sums = noised(task, board, exact, noise, t=t, clip_norm=clip_norm)
    known = Public.of(task, board, board.arrays["weighted_counts"])
    rows, width = known.rows, s.rank + int(s.has_biases)
    # Where everybody's x_j is zero there is nothing but noise.
    there = known_coordinates(task, board, t)
    noise_of_moment = s.shared.noise_multipliers[f"round-{t}/moment"] * s.vector_bound**2
    seen = sums.moment[there][:, there]
    moment = believed_moment(seen, stddev=noise_of_moment, n=n, bound=s.vector_bound)
    stddev, linear = s.shared.noise_multipliers[f"round-{t}/linear"] * clip_norm * unit, unit * sums.linear
    if s.has_biases and len(there) == 1:  # as they would be, had x_j been bias_scale instead of vector_bound
        longer = s.vector_bound / s.bias_scale
        moment, stddev, linear = moment / longer**2, stddev / longer, linear / longer
    curvature = known.c[:, None, None] * moment
    if s.curvature is Curvature.RELEASED:
        of_matrices = s.shared.noise_multipliers[f"round-{t}/curvature"] * s.vector_bound**2
        curvature = believed_curvature(sums.curvature[rows], moment, known.c, of_matrices)
    start = np.column_stack([board.arrays["item_biases"] / s.bias_scale, board.arrays["item_factors"]])[rows]
    start = start[:, -width:][:, there]
    before = Measured.before(s, board)
    step = stepped(s, known, start, linear[rows][:, there], curvature, moment, stddev, before)
    found = step.coordinates
    if t > 1 and len(there) > width - s.rank:  # biases alone are not averaged
        found = (1 - s.iterate_memory) * found + s.iterate_memory * start
    change = np.eye(len(there))
    own = slice(width - s.rank, width)
    if len(there) > own.start:
        change[own, own] = change_of_gauge(found[:, own], moment[own, own], known.counts)
    moved = np.zeros((rows.size, width))
    moved[:, there] = found @ change
    made = {
        "item_biases": np.zeros(cohort.n_items),
        "item_factors": np.zeros((cohort.n_items, s.rank)),
        **evidence_after(task, board, sums.ridges, t),
        **remembered(s, step.measured),
    }
    if t >= 3 and "ridge_evidence" in made and min(made["ridge_evidence"]) >= 0:
        moved[:, own] = 0.0
    if s.has_biases and t < s.rounds:
        explored = explores(task, board, step.bias_variance, known, t + 1, clip_norm)
        made["explores"] = np.array([explored])
    made["item_factors"][rows] = moved[:, own]
    if s.has_biases:
        made["item_biases"][rows] = moved[:, 0] * s.bias_scale
    return made


def change_of_gauge(u: np.ndarray, m: np.ndarray, counts: np.ndarray) -> np.ndarray:
    root = np.real(sqrtm(m))
    total = sum(n * np.outer(row, row) for n, row in zip(counts, u @ root, strict=True))
    axes = np.linalg.eigh(total / counts.sum())[1]
    return root @ axes * np.sqrt(len(m))


def full_matrices(packed: np.ndarray, width: int) -> np.ndarray:
    found = np.zeros((len(packed), width, width))
    for matrix, row in zip(found, packed, strict=True):
        numbers = iter(row)
        for a in range(width):
            for b in range(a, width):
                matrix[a, b] = matrix[b, a] = next(numbers)
    return found
