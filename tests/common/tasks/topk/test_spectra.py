"""Denoising against simulated truth: what is found, what is shrunk, and that noise alone gives nothing."""

import numpy as np
import pytest

from fedboard.common.tasks.topk.spectra import denoised, gauge, started

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


def test_popularity_is_no_taste() -> None:
    """What is left of it in the start, where the counts erred, is not found again as a direction."""
    rng = np.random.default_rng(1)
    axes, values = planted(rng)
    popularity = axes @ [0.0, 0.6, 0.0, 0.8] * 3.0
    noisy = (axes * values) @ axes.T + 2.0 * np.outer(popularity, popularity) + symmetric_noise(rng, 0.1)
    found = started(noisy, 0.1, rank=10, known=popularity)
    assert np.abs(found.axes.T @ popularity).max() < 1e-9
    assert found.values[0] == pytest.approx(80.0, rel=0.05)
    assert started(np.outer(popularity, popularity), 0.1, rank=10, known=popularity).above == 0


def test_noise_alone_rises_to_no_direction() -> None:
    above = [
        started(symmetric_noise(np.random.default_rng(seed), 2.0), 2.0, rank=5, known=np.zeros(M)).above
        for seed in range(20)
    ]
    assert sum(above) <= 2


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


def test_directions_of_noise_alone_are_believed_nothing() -> None:
    rng = np.random.default_rng(9)
    columns = rng.standard_normal((M, 5)) * 3.0
    found = denoised(columns, np.ones(5), (), np.ones(M), stddev=3.0)
    energy = np.sum((found.values**2) * found.agreement)
    assert energy < 0.02 * np.sum(columns**2)
