"""Counts of several rounds together: against simulated truth, where the first round was the same for all.

Denoising against simulated truth: what is found, what is shrunk, and that noise alone gives nothing.

What lists are made of, by loops over pairs of items and by an inverse that is written out.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

from fedboard.common.algorithms.topk.algorithm import TopK
from fedboard.common.algorithms.topk.basis import Directions, corrected, denoised, gauge, joined, started
from fedboard.common.algorithms.topk.device import ENERGY_UNITS, KERNELS, Stage, energies
from fedboard.common.algorithms.topk.kernels import Kernels, scores_of
from fedboard.common.board import Board
from fedboard.common.item_features import CatalogueFeatures
from tests.common.algorithms.topk.boards import N_ITEMS, a_task, board_before, cohort

N_COUNTED, N_USERS = 800, 4000


def true_counts(rng: np.random.Generator) -> np.ndarray:
    return 300.0 * (1.0 + np.arange(N_COUNTED)) ** -0.8 * rng.uniform(0.8, 1.25, N_COUNTED)


def test_a_round_among_fewer_items_is_brought_to_the_unit_of_the_first() -> None:
    rng = np.random.default_rng(0)
    truth = true_counts(rng)
    errors, claimed = [], []
    for _ in range(20):
        first = truth + 10.0 * rng.standard_normal(N_COUNTED)
        counted = np.arange(N_COUNTED) < 256
        again = np.where(counted, 2.5 * truth + 5.0 * rng.standard_normal(N_COUNTED), 0.0)
        noisy, variance = joined((first, np.full(N_COUNTED, 100.0)), again, counted, 5.0)
        errors.append((noisy - truth)[counted])
        claimed.append(variance[counted])
        assert np.abs(noisy - first)[~counted].max() < 1e-9
        assert np.abs(variance - 100.0)[~counted].max() < 1e-9
    assert np.mean(claimed) < 5.0  # 1 / (1 / 100 + 2.5^2 / 25) is 3.8
    assert np.mean(np.square(errors)) < 2.0 * np.mean(claimed)  # the gain is known to a few percent


def test_what_stands_beside_the_constant_corrects_the_counts_along_the_columns() -> None:
    rng = np.random.default_rng(3)
    truth, stddev, unit = true_counts(rng), 2.0, 0.8
    before, after = [], []
    for _ in range(20):
        noisy = truth + 20.0 * rng.standard_normal(N_COUNTED)
        columns = np.linalg.qr(np.column_stack([noisy, np.eye(N_COUNTED)[:, :64]]))[0][:, 1:]
        crossed = unit * (columns.T @ truth) + stddev / np.sqrt(2.0) * rng.standard_normal(64)
        found, variance = corrected(
            (noisy, np.full(N_COUNTED, 400.0)),
            np.arange(N_COUNTED, dtype=np.int32),
            columns,
            crossed,
            last=unit * 0.3 * N_USERS,
            population=N_USERS,
            stddev=stddev,
        )
        before.append(np.sum((columns.T @ (noisy - truth)) ** 2))
        after.append(np.sum((columns.T @ (found - truth)) ** 2))
        assert 0.0 < variance.min() < 40.0
    assert np.mean(after) < 0.02 * np.mean(before)


N_SEEN = 300


def planted(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    axes = np.linalg.qr(rng.standard_normal((N_SEEN, 4)))[0]
    return axes, np.array([80.0, 40.0, 20.0, 8.0])


def symmetric_noise(rng: np.random.Generator, stddev: float) -> np.ndarray:
    noise = rng.standard_normal((N_SEEN, N_SEEN)) * stddev
    return (noise + noise.T) / 2


def test_eigenvalues_of_the_start_are_freed_of_their_noise() -> None:
    rng = np.random.default_rng(0)
    axes, values = planted(rng)
    found = started((axes * values) @ axes.T + symmetric_noise(rng, 0.5), 0.5, rank=4, known=np.zeros(N_SEEN))
    assert np.abs(found.values / values - 1).max() < 0.1
    assert found.above == 4  # those beyond half the edge, 0.5 sqrt(600) / 2 = 6.1


def test_agreement_is_the_squared_cosine_with_the_truth() -> None:
    rng = np.random.default_rng(5)
    axes, values = planted(rng)
    counts = np.ones(N_SEEN)
    scale = gauge(values[1:], 0.4)
    claimed, true = [], []
    for _ in range(10):
        columns = (axes * values) * scale + rng.standard_normal((N_SEEN, 4)) * 0.4
        found = denoised(columns, scale, (), counts, stddev=0.4)
        claimed.append(found.agreement[:4])
        true.append([float(np.sum((axes.T @ axis) ** 2)) for axis in found.axes.T[:4]])
    assert np.abs(np.mean(claimed, axis=0) - np.mean(true, axis=0)).max() < 0.08


M, N_DIRECTIONS, RANK = 30, 4, 5


def a_board(task: TopK) -> Board:
    """Before the energies, with directions and kernels that are large enough to see every pair of items."""
    board, rng = board_before(Stage.ENERGIES, task, learnt_share=0.6), np.random.default_rng(4)
    factors = rng.standard_normal((N_ITEMS, task.settings.width + task.settings.kernel_rank))
    return replace(board, arrays={**board.arrays, "item_factors": (0.3 * factors).astype(np.float32)})


@pytest.mark.parametrize("user", range(5))
def test_energies_are_sums_over_pairs_of_different_items(user: int) -> None:
    task = a_task(energy_bound=0.4)
    board, width, own = a_board(task), task.settings.width, cohort().rows(user, user + 1)
    factors, forms = (
        np.asarray(board.arrays[name], dtype=np.float64) for name in ("item_factors", "kernel_forms")
    )
    items = [item for item in own.items.tolist() if board.arrays["learnt"][item]]
    expected = np.zeros(64)
    for i in items:
        for other in items:
            if i == other:
                continue
            for d in range(width):
                expected[d] += factors[i, d] * factors[other, d] / len(items)
            for q in range(KERNELS):
                kernel = factors[i, width:] @ forms[q] @ factors[other, width:]
                expected[width + q] += kernel / len(items)
    expected[0] /= 2.0
    expected *= ENERGY_UNITS / max(float(np.linalg.norm(expected)), 0.4)

    found = energies(own, board, task.settings).totals["energies"][0]

    assert np.abs(found - expected).max() <= 1.0  # grid units; the numbers themselves are thousands of them
    assert bool(found.any()) == (len(items) > 1)


def directions_and_kernels(seed: int) -> tuple[Directions, Kernels]:
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((M, N_DIRECTIONS)))[0]
    directions = Directions(
        axes=axes, values=np.array([60.0, 20.0, 8.0, 3.0]), agreement=np.array([1.0, 0.9, 0.6, 0.3])
    )
    columns = np.linalg.qr(rng.standard_normal((M, RANK)))[0]
    roots = rng.standard_normal((KERNELS, RANK, RANK))
    forms = roots @ roots.transpose(0, 2, 1)
    for form in forms:  # norm 1 off the diagonal
        whole = columns @ form @ columns.T
        form /= np.linalg.norm(whole - np.diag(np.diag(whole)))
    return directions, Kernels(columns=columns, forms=forms)


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return matrix - np.diag(np.diag(matrix))


def second_moments(
    directions: Directions, kernels: Kernels | None, noisy: np.ndarray, own: np.ndarray, stddev: float
) -> np.ndarray:
    """C, an item by an item."""
    values, energy = directions.values, np.maximum(noisy[:N_DIRECTIONS], 0.0)
    slope = sum(e * v for e, v in zip(energy, values, strict=True)) / sum(v * v for v in values)
    strength = []
    for e, v, agreement in zip(energy, values, directions.agreement, strict=True):
        spread = (0.3 * slope * v + 0.5) ** 2
        strength.append(agreement * (spread * e + stddev**2 * slope * v) / (spread + stddev**2))
    low_rank = sum(s * np.outer(axis, axis) for s, axis in zip(strength, directions.axes.T, strict=True))
    whole = low_rank
    if kernels is not None:
        between = [kernels.columns @ form @ kernels.columns.T for form in kernels.forms]
        gram = [[np.sum(off_diagonal(a) * off_diagonal(b)) for b in between] for a in between]
        left = [
            e - np.sum(off_diagonal(a) * low_rank) for e, a in zip(noisy[N_DIRECTIONS:], between, strict=True)
        ]
        tau = nnls(np.array(gram) + 0.02 * np.eye(KERNELS), np.array(left))[0]
        assert np.count_nonzero(tau) >= 2
        whole = low_rank + sum(t * kernel for t, kernel in zip(tau, between, strict=True))
    wanted = np.maximum(own, 1.02 * np.diag(low_rank)) + 1.0
    return off_diagonal(whole) + np.diag(np.maximum(wanted, np.diag(whole) + 0.1 * wanted))


@pytest.mark.parametrize("own", [0.01, 2.0, 50.0])
@pytest.mark.parametrize("with_kernels", [False, True])
def test_scores_are_the_regression_on_a_persons_other_items(with_kernels: bool, own: float) -> None:
    """sum_l x_l (-P_il / P_ii) with P the inverse of C: what somebody has says of item i what C says."""
    rng = np.random.default_rng(5)
    directions, kernels = directions_and_kernels(6)
    noisy = np.concatenate([[70.0, 15.0, -2.0, 5.0], rng.uniform(2.0, 20.0, KERNELS)])
    diagonal = own * rng.uniform(0.5, 2.0, M)

    found = scores_of(
        directions, kernels if with_kernels else None, noisy, diagonal, stddev=4.0, diagonal=1.0
    )

    precision = np.linalg.inv(
        second_moments(directions, kernels if with_kernels else None, noisy, diagonal, 4.0)
    )
    np.testing.assert_allclose(found.scale, 1.0 / np.diag(precision), rtol=1e-9)
    for item in range(M):
        for other in range(M):
            if item != other:
                weight = found.factors[item] @ found.factors[other] * found.scale[item]
                assert weight == pytest.approx(-precision[item, other] / precision[item, item], abs=1e-12)


class Told:
    """Noised sums, with three times the booked noise in them."""

    noise_ratio = 3.0

    def __init__(self, energies: np.ndarray) -> None:
        self.energies = energies

    def array(self, name: str) -> np.ndarray:
        return {"energies": self.energies}[name]


def test_the_last_board_is_scored_by_its_own_releases() -> None:
    """The first energy is halved on the device; kernels stand behind all directions, used or not."""
    task, rng = a_task(diagonal=2.0), np.random.default_rng(8)
    board, settings, used = a_board(task), task.settings, 3
    strengths = np.append(np.array([60.0, 20.0, 8.0]), np.zeros(settings.width - used))
    known = {"direction_values": strengths, "direction_agreement": 0.9 * (strengths > 0)}
    features = CatalogueFeatures(
        number_names=(),
        numbers=np.zeros((N_ITEMS, 0), dtype=np.float32),
        label_names=("kind",),
        labels=np.ones((N_ITEMS, 1), dtype=np.uint8),
    )
    board = replace(
        board,
        arrays={**board.arrays, **known, "population": np.array([500.0])},
        catalogue=replace(board.catalogue, features=features),
    )
    noisy = rng.uniform(1.0, 9.0, (1, 64))
    learnt = np.flatnonzero(board.arrays["learnt"])
    model = np.asarray(board.arrays["item_factors"], dtype=np.float64)[learnt]
    counts = np.asarray(board.arrays["item_counts"])[learnt]
    (request,) = task.requests(board)

    made = task.update(board, Told(noisy)).arrays  # type: ignore[arg-type]

    expected = scores_of(
        Directions(axes=model[:, :used], values=strengths[:used], agreement=np.full(used, 0.9)),
        Kernels(columns=model[:, settings.width :], forms=board.arrays["kernel_forms"].astype(np.float64)),
        np.concatenate([[2.0 * noisy[0, 0]], noisy[0, 1:used], noisy[0, settings.width :][:KERNELS]]),
        500.0 * counts / counts.sum(),
        stddev=3.0 * request.release.noise_stddev * request.release.grid_step,
        diagonal=2.0,
    )
    width = expected.factors.shape[1]
    np.testing.assert_allclose(made["item_factors"][learnt, :width], expected.factors, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(made["item_scale"][learnt], expected.scale, rtol=1e-9)


def test_a_device_adds_these_weights_up_over_the_learnt_items_it_has() -> None:
    """And the counts, as ties: a score of somebody without any of them is by popularity alone."""
    task, rng = a_task(), np.random.default_rng(7)
    board, people = a_board(task), cohort()
    arrays = {
        "item_factors": rng.standard_normal((N_ITEMS, 3)).astype(np.float32),
        "item_scale": rng.uniform(0.1, 2.0, N_ITEMS),
        "item_biases": rng.uniform(0.0, 1e-3, N_ITEMS).astype(np.float32),
        "learnt": np.asarray(board.arrays["learnt"]),
    }
    board = replace(board, arrays=arrays)

    users, items = task.ranking_factors(task.fit_local(people, board), board)

    for user in (0, 3, 4):
        own = people.items[people.indptr[user] : people.indptr[user + 1]].tolist()
        for item in range(0, N_ITEMS, 500):
            score = float(arrays["item_biases"][item])
            for other in own:
                if arrays["learnt"][other]:
                    score += (
                        arrays["item_factors"][item]
                        @ arrays["item_factors"][other]
                        * arrays["item_scale"][item]
                    )
            assert float(users[user] @ items[item]) == pytest.approx(score, rel=1e-4, abs=1e-4)
