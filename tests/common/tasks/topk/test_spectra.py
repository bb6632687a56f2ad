"""Denoising against simulated truth: what is found, what is shrunk, and that noise alone gives nothing."""

import numpy as np

from fedboard.common.tasks.topk.basis import denoised, gauge, started

M = 300


def planted(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    axes = np.linalg.qr(rng.standard_normal((M, 4)))[0]
    return axes, np.array([80.0, 40.0, 20.0, 8.0])


def symmetric_noise(rng: np.random.Generator, stddev: float) -> np.ndarray:
    noise = rng.standard_normal((M, M)) * stddev
    return (noise + noise.T) / 2


def test_eigenvalues_of_the_start_are_freed_of_their_noise() -> None:
    rng = np.random.default_rng(0)
    axes, values = planted(rng)
    found = started((axes * values) @ axes.T + symmetric_noise(rng, 0.5), 0.5, rank=4, known=np.zeros(M))
    assert np.abs(found.values / values - 1).max() < 0.1
    assert found.above == 4  # those beyond half the edge, 0.5 sqrt(600) / 2 = 6.1


def test_agreement_is_the_squared_cosine_with_the_truth() -> None:
    rng = np.random.default_rng(5)
    axes, values = planted(rng)
    counts = np.ones(M)
    scale = gauge(values[1:], 0.4)
    claimed, true = [], []
    for _ in range(10):
        columns = (axes * values) * scale + rng.standard_normal((M, 4)) * 0.4
        found = denoised(columns, scale, (), counts, stddev=0.4)
        claimed.append(found.agreement[:4])
        true.append([float(np.sum((axes.T @ axis) ** 2)) for axis in found.axes.T[:4]])
    assert np.abs(np.mean(claimed, axis=0) - np.mean(true, axis=0)).max() < 0.08
