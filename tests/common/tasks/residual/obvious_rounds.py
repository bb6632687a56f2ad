"""Rounds of residual alternating minimisation with loops: what the tests hold the task against."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import sqrtm

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.tasks.residual.config import Curvature, ResidualConfig, Shrinkage, releases_curvature
from fedboard.common.tasks.residual.task import Residual
from tests.common.tasks.residual.obvious_contributions import Sums, sums_of


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
    if t > 0 and releases_curvature(s, t):
        found = replace(found, curvature=symmetric(f"{prefix}/curvature", sums.curvature))
    return found


def raised(matrix: np.ndarray, least: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return sum(
        max(value, least) * np.outer(vector, vector) for value, vector in zip(values, vectors.T, strict=True)
    )


def believed_moment(total: np.ndarray, *, stddev: float, n: float, bound: float) -> np.ndarray:
    """M / n, pulled to a multiple of the identity as far as noise of this deviation (of a sum) demands."""
    width, noise = len(total), stddev / n
    matrix, usual = total / n, 0.6 * bound**2 / width
    share = (usual / 2) ** 2 / ((usual / 2) ** 2 + noise**2 / width)
    level = max((1 - share) * usual + share * np.trace(matrix) / width, 0.1 * usual)
    apart = matrix - level * np.eye(width)
    found = np.sum(np.diag(apart) ** 2) + 2 * np.sum(np.triu(apart, 1) ** 2)
    keep = max(0.0, 1.0 - width * (width + 1) / 2 * noise**2 / found)
    return raised(level * np.eye(width) + keep * apart, min(max(1e-3 * level, 2 * noise), level))


def believed_counts(task: Residual, noisy: np.ndarray, counts: np.ndarray) -> np.ndarray:
    s, z = task.settings, task.settings.shared.noise_multipliers
    shape = counts ** (1 - s.weight_exponent)
    scale = max(float(shape @ noisy), 1.0) / float(shape @ shape)
    found = np.empty_like(noisy)
    for i, predicted in enumerate(scale * shape):
        other = scale * (counts[i] + z["counts"] * np.sqrt(s.shared.count_cap)) ** (1 - s.weight_exponent)
        spread = (0.3 * predicted) ** 2 + (other - predicted) ** 2
        share = spread / (spread + z["weighted-counts"] ** 2)
        found[i] = max((1 - share) * predicted + share * noisy[i], 0.3)
    return found


def believed_curvature(noisy: np.ndarray, moment: np.ndarray, c: np.ndarray, stddev: float) -> np.ndarray:
    """Each matrix pulled to c_i M; how far, by a least-squares fit of how much they differ from it."""
    width = moment.shape[0]
    upper = np.triu_indices(width)
    excess = np.empty(c.size)
    for i, matrix in enumerate(noisy):
        isometric = (matrix - c[i] * moment)[upper] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
        excess[i] = np.mean(isometric**2) - stddev**2
    precision = 1.0 / (stddev**2 + (0.03 * c) ** 2)
    columns = np.column_stack([c, c**2])
    normal = columns.T @ (columns * (precision**2)[:, None])
    coefficients = np.maximum(np.linalg.solve(normal, columns.T @ (precision**2 * excess)), 0.0)
    found = np.empty_like(noisy)
    for i, matrix in enumerate(noisy):
        variance = columns[i] @ coefficients
        blended = c[i] * moment + variance / (variance + stddev**2) * (matrix - c[i] * moment)
        found[i] = c[i] * raised(blended / c[i], 1e-3 * np.trace(moment) / width)
    return found


def shrunk(
    values: np.ndarray, noise: np.ndarray, design: np.ndarray | None, ridge: float, inflation: float
) -> np.ndarray:
    """Empirical Bayes: prior by moments, posterior by adding precisions."""
    n, width = values.shape
    prior, spread = np.zeros((n, width)), np.eye(width)
    for _ in range(2 if design is not None else 1):
        if design is not None:
            for a in range(width):
                precision = 1.0 / np.sqrt(noise[:, a, a] + spread[a, a])
                pull = np.sqrt(ridge / spread[a, a]) * np.eye(design.shape[1])[1:]
                rows = np.vstack([design * precision[:, None], pull])
                targets = np.concatenate([values[:, a] * precision, np.zeros(len(pull))])
                prior[:, a] = design @ np.linalg.lstsq(rows, targets, rcond=None)[0]
        total, weights = np.zeros((width, width)), 0.0
        for i in range(n):
            weight = 1.0 / np.trace(spread + noise[i]) ** 2
            total += weight * (np.outer(values[i] - prior[i], values[i] - prior[i]) - noise[i])
            weights += weight
        spread = raised(total / weights, 1e-4)
    found = np.empty_like(values)
    for i in range(n):
        inverse, certain = np.linalg.inv(noise[i]), np.linalg.inv(inflation * spread)
        found[i] = np.linalg.solve(inverse + certain, inverse @ values[i] + certain @ prior[i])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What the server knows before a round of the items that are learnt."""

    rows: np.ndarray
    counts: np.ndarray
    c: np.ndarray
    unobserved: np.ndarray
    design: np.ndarray | None

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
            design=design if s.popularity_prior else None,
        )


def stepped(
    s: ResidualConfig,
    known: Public,
    start: np.ndarray,
    linear: np.ndarray,
    curvature: np.ndarray,
    moment: np.ndarray,
    stddev: float,
) -> np.ndarray:
    """One item step and its shrinkage, of the items that are learnt."""
    values, noise, unit = np.empty_like(start), np.empty_like(curvature), np.eye(start.shape[1])
    for i, (c, n) in enumerate(zip(known.c, known.counts, strict=True)):
        whole = curvature[i] + known.unobserved[i] * moment
        gradient = linear[i] - known.unobserved[i] * moment @ start[i]
        if s.shrinkage is Shrinkage.RIDGE:
            pulled = gradient - s.item_ridge * start[i]
            values[i] = start[i] + s.step * np.linalg.solve(whole + s.item_ridge * unit, pulled)
            continue
        inverse = np.linalg.inv(whole)
        values[i] = start[i] + s.step * inverse @ gradient
        of_ratings = s.noise_variance * min(c / n, 1.0) * curvature[i]
        noise[i] = s.step**2 * inverse @ (stddev**2 * unit + of_ratings) @ inverse
    if s.shrinkage is Shrinkage.RIDGE:
        return values
    return shrunk(values, noise, known.design, s.prior_ridge, s.prior_inflation)


def bias_round(task: Residual, cohort: Cohort, board: Board, noise: SeededNoise) -> dict[str, np.ndarray]:
    s, n = task.settings, float(board.arrays["population"][0])
    c_norm = s.bias_clip_norm
    exact = sums_of(task, cohort, board, t=0, clip_norm=c_norm)
    sums = noised(task, board, exact, noise, t=0, clip_norm=c_norm)
    rows = np.flatnonzero(board.arrays["learnt"])
    weighted = np.ones(cohort.n_items)
    weighted[rows] = believed_counts(task, sums.weighted_counts[rows], board.arrays["item_counts"][rows])
    if not s.has_biases:
        return {"weighted_counts": weighted}
    known = Public.of(task, board, weighted)
    noise_of_moment = s.shared.noise_multipliers["bias/moment"] * s.bias_scale**2
    moment = believed_moment(sums.moment, stddev=noise_of_moment, n=n, bound=s.bias_scale)
    curvature = known.c[:, None, None] * moment
    stddev = s.shared.noise_multipliers["bias/linear"] * c_norm
    biases = np.zeros(cohort.n_items)
    start = np.zeros((rows.size, 1))
    found = stepped(s, known, start, sums.linear[rows], curvature, moment, stddev)
    biases[rows] = found[:, 0] * s.bias_scale
    return {"weighted_counts": weighted, "item_biases": biases}


def alternation(
    task: Residual, cohort: Cohort, board: Board, noise: SeededNoise, *, t: int
) -> dict[str, np.ndarray]:
    s, n = task.settings, float(board.arrays["population"][0])
    clip_norm = float(board.arrays["clip_norm"][0]) if "clip_norm" in board.arrays else s.clip_norm
    exact = sums_of(task, cohort, board, t=t, clip_norm=clip_norm)
    sums = noised(task, board, exact, noise, t=t, clip_norm=clip_norm)
    known = Public.of(task, board, board.arrays["weighted_counts"])
    rows, width = known.rows, s.rank + int(s.has_biases)
    noise_of_moment = s.shared.noise_multipliers[f"round-{t}/moment"] * s.vector_bound**2
    moment = believed_moment(sums.moment, stddev=noise_of_moment, n=n, bound=s.vector_bound)
    curvature = known.c[:, None, None] * moment
    if releases_curvature(s, t):
        stddev = s.shared.noise_multipliers[f"round-{t}/curvature"] * s.vector_bound**2
        curvature = believed_curvature(sums.curvature[rows], moment, known.c, stddev)
    elif "item_curvature" in board.arrays:
        curvature = full_matrices(board.arrays["item_curvature"], width)
    start = np.column_stack([board.arrays["item_biases"] / s.bias_scale, board.arrays["item_factors"]])[rows]
    start = start[:, -width:]
    stddev = s.shared.noise_multipliers[f"round-{t}/linear"] * clip_norm
    found = stepped(s, known, start, sums.linear[rows], curvature, moment, stddev)
    if t > 1:
        found = (1 - s.iterate_memory) * found + s.iterate_memory * start
    change = np.eye(width)
    own = slice(width - s.rank, width)
    change[own, own] = change_of_gauge(found[:, own], moment[own, own], known.counts, s)
    moved = found @ change
    made = {
        "item_biases": np.zeros(cohort.n_items),
        "item_factors": np.zeros((cohort.n_items, s.rank)),
    }
    made["item_factors"][rows] = moved[:, own]
    if s.has_biases:
        made["item_biases"][rows] = moved[:, 0] * s.bias_scale
    if s.curvature is Curvature.ONCE and t >= 2:
        back = np.linalg.inv(change)
        made["item_curvature"] = np.stack([back @ matrix @ back.T for matrix in curvature])
    return made


def change_of_gauge(u: np.ndarray, m: np.ndarray, counts: np.ndarray, s: ResidualConfig) -> np.ndarray:
    root = np.real(sqrtm(m))
    total = sum(n * np.outer(row, row) for n, row in zip(counts, u @ root, strict=True))
    variances, axes = np.linalg.eigh(total / counts.sum())
    wanted = np.maximum(variances, 1e-6 * variances.max()) ** s.gauge_exponent
    return root @ axes @ np.diag(1.0 / np.sqrt(wanted / wanted.sum()))


def full_matrices(packed: np.ndarray, width: int) -> np.ndarray:
    found = np.zeros((len(packed), width, width))
    for matrix, row in zip(found, packed, strict=True):
        numbers = iter(row)
        for a in range(width):
            for b in range(a, width):
                matrix[a, b] = matrix[b, a] = next(numbers)
    return found
