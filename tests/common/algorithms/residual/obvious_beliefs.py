"""What noisy sums of residual alternating minimisation are taken to say, with loops."""

import numpy as np
from scipy.linalg import eigh

from fedboard.common.algorithms.residual.algorithm import Residual


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


def believed_counts(task: Residual, noisy: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted counts and what is left to doubt in them.

    Counts of ratings are denoised already; those of presence are as they were released.
    """
    s, z = task.settings, task.settings.shared.noise_multipliers
    shape, left = counts ** (1 - s.weight_exponent), z["counts"] * np.sqrt(s.shared.count_cap)
    scale = max(float(shape @ noisy), 1.0) / float(shape @ shape)
    found, doubt = np.empty_like(noisy), np.empty_like(noisy)
    for i, predicted in enumerate(scale * shape):
        other = scale * (counts[i] + (0.0 if s.has_biases else left)) ** (1 - s.weight_exponent)
        spread = (0.3 * predicted) ** 2 + (other - predicted) ** 2
        share = spread / (spread + z["weighted-counts"] ** 2)
        found[i] = max((1 - share) * predicted + share * noisy[i], 0.3)
        doubt[i] = share * z["weighted-counts"] ** 2
    return found, doubt


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


def prior_means(
    values: np.ndarray, noise: np.ndarray, design: np.ndarray, spread: np.ndarray, ridge: float
) -> np.ndarray:
    """Each coordinate regressed on the design, by least squares on rows of equal noise."""
    prior = np.empty_like(values)
    for a in range(values.shape[1]):
        precision = 1.0 / np.sqrt(noise[:, a, a] + spread[a, a])
        pull = np.sqrt(ridge / spread[a, a]) * np.eye(design.shape[1])[1:]
        rows = np.vstack([design * precision[:, None], pull])
        targets = np.concatenate([values[:, a] * precision, np.zeros(len(pull))])
        prior[:, a] = design @ np.linalg.lstsq(rows, targets, rcond=None)[0]
    return prior


def prior_by_moments(
    values: np.ndarray, noise: np.ndarray, design: np.ndarray | None, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of presence: what estimates vary by less what their noise varies by."""
    n, width = values.shape
    prior, spread = np.zeros((n, width)), np.eye(width)
    for _ in range(2 if design is not None else 1):
        if design is not None:
            prior = prior_means(values, noise, design, spread, ridge)
        total, weights = np.zeros((width, width)), 0.0
        for i in range(n):
            weight = 1.0 / np.trace(spread + noise[i]) ** 2
            total += weight * (np.outer(values[i] - prior[i], values[i] - prior[i]) - noise[i])
            weights += weight
        spread = raised(total / weights, 1e-4)
    return prior, spread


def prior_beyond_noise(
    values: np.ndarray, noise: np.ndarray, design: np.ndarray | None, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of ratings: directions in which estimates vary by more than any noise does, and the bias by itself."""
    n, width = values.shape
    prior, spread = np.zeros((n, width)), 0.3 * np.eye(width)
    for _ in range(3):
        if design is not None:
            prior = prior_means(values, noise, design, spread + 1e-9 * np.eye(width), ridge)
        found = beyond_noise(values - prior, noise, spread)
        if width > 1:
            alone = beyond_noise((values - prior)[:, :1], noise[:, :1, :1], spread[:1, :1])
            found[0, 0] = max(found[0, 0], alone[0, 0])
        spread = found
    return prior, spread + 1e-9 * np.eye(width)


def beyond_noise(errors: np.ndarray, noise: np.ndarray, spread: np.ndarray) -> np.ndarray:
    n, width = errors.shape
    weights = np.array([1.0 / np.trace(matrix + spread) ** 2 for matrix in noise])

    def moment(rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("i,ia,ib->ab", weights, rows, rows)) / weights.sum()

    of_noise = sum(w * matrix for w, matrix in zip(weights, noise, strict=True)) / weights.sum()
    edge, factors = 0.0, np.stack([np.linalg.cholesky(matrix) for matrix in noise])
    for number in range(40):
        draws = np.random.default_rng(number).standard_normal((n, width))
        simulated = np.einsum("iab,ib->ia", factors, draws)
        edge = max(edge, eigh(moment(simulated), of_noise, eigvals_only=True)[-1])
    gamma, found = max(np.sqrt(edge) - 1.0, 0.0) ** 2, np.zeros((width, width))
    # Axes for which vector @ of_noise @ vector = 1: their values are in units of the noise along them.
    for value, vector in zip(*(np.transpose(part) for part in eigh(moment(errors), of_noise)), strict=True):
        if (
            value > edge
        ):  # what gives this value once noise is added: x with x + 1 + gamma (x + 1) / x = value
            b = value - 1.0 - gamma
            size = 0.5 * (b + np.sqrt(max(b**2 - 4.0 * gamma, 0.0)))
            found += max(size, 0.0) * np.outer(of_noise @ vector, of_noise @ vector)
    return found


def shrunk(
    values: np.ndarray, noise: np.ndarray, prior: np.ndarray, spread: np.ndarray, inflation: float
) -> np.ndarray:
    """Posterior means, by adding precisions."""
    found = np.empty_like(values)
    for i in range(len(values)):
        inverse, certain = np.linalg.inv(noise[i]), np.linalg.inv(inflation * spread)
        found[i] = np.linalg.solve(inverse + certain, inverse @ values[i] + certain @ prior[i])
    return found
