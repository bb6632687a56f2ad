"""The floating-point attack on items that few users rated, and what becomes of it on the integer grid.

**The attack** (Mironov 2012; Jin et al. 2022; Haney et al. 2022). The adversary knows everything but whether
one user took part: the sum S of all others and her contribution x. One number y is published. If she is absent,
y = S + sigma N; if present, y = (S + x) + sigma N. Real numbers would leave the question open. Floating-point
numbers do not: the nearer to 0 the denser they lie, and products with sigma and sums skip many. The adversary
searches all float64 (or float32) draws N: is there one with

    fl( fl(S + x) + fl(sigma N) ) = y ?

Where there is none, y *proves* that she is absent; likewise the other way round. Every operation is monotone,
so the draws that could have led to y are neighbours of (y - S - x) / sigma, and looking at a few on either side
is an exhaustive search. Granting the sampler every floating-point number as its output errs in its favour: real
samplers (polar, Box-Muller, ziggurat) have holes besides. Privacy accounting knows nothing of this: epsilon is
infinite.

**On the grid.** ``BookedRelease.publish`` gives y = floor((S + rint(sigma N)) / 2^shift) with an integer S. The
same search runs over all 2^64 outputs of the sampler, by bisection, since the draw is monotone in the low 63
bits of its word: is there a word that gives y for S + x as well? A witness is found for each number and checked
by computing the release anew from it; where there is none it counts as a success of the attack.

A contribution has norm 1 and sigma is the noise multiplier. In the first table all numbers receive x = 0.3, for
different S; the second is one item that nobody else rated: 560 numbers (rank 32: 528 of v v^T, 32 of y v), S =
0, of a user who has 49 items.
"""

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common import kernels
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise, noise_backend

SIGMAS = (1.0, 10.0, 100.0)
SUMS = (0.0, 0.3, 3.7123, 37.123, 1234.57)
CONTRIBUTION = 0.3
GRID_BOUND = 1 << 38  # grid units that stand for 1
NEIGHBOURS = 5
MANY = 8  # of so many floating-point numbers in a row at least one is a multiple of sigma
SIGN = np.uint64(1 << 63)
RANK, ITEM_WEIGHT = 32, 1.0 / 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How often one published number, or one item, gives the user away."""

    noise: str
    """"float64", "float32" or "grid"."""
    sigma: float
    others: float
    """S, the sum of all others."""
    numbers: int
    """Numbers per attack: 1, or those of an item."""
    absence_proved: float
    """Share of attacks that prove the user's absence, when she is absent."""
    presence_proved: float
    """Share of attacks that prove her presence, when she is present."""


def possible(published: NDArray, total: NDArray, sigma: float) -> NDArray[np.bool_]:
    """Whether fl(total + fl(sigma N)) = published for some floating-point N, in the arithmetic of ``total``."""
    scale = total.dtype.type(sigma)
    found = np.zeros(published.shape, dtype=np.bool_)
    for added in _around(published - total):
        fits = total + added == published
        for draw in _around(added / scale):
            found |= fits & (scale * draw == added)
    # Where the sum is this much coarser than the noise, more draws round to it than were looked at.
    return found | (np.spacing(np.abs(published)) >= MANY * np.spacing(np.abs(published - total)))


def _around(values: NDArray) -> list[NDArray]:
    """The values and their floating-point neighbours."""
    found, above, below = [values], values, values
    for _ in range(NEIGHBOURS):
        above = np.nextafter(above, values.dtype.type(np.inf))
        below = np.nextafter(below, values.dtype.type(-np.inf))
        found += [above, below]
    return found


def attack_floats(kind: type, sigma: float, others: NDArray, own: NDArray) -> tuple[NDArray, NDArray]:
    """Numbers that prove absence and presence, bool, the shape of ``own``; numpy's ziggurat draws the noise."""
    rng = np.random.default_rng()
    absent, present = others.astype(kind), others.astype(kind) + own.astype(kind)
    scale = kind(sigma)
    of_absent = absent + scale * rng.standard_normal(own.shape, dtype=kind)
    of_present = present + scale * rng.standard_normal(own.shape, dtype=kind)
    return ~possible(of_absent, present, sigma), ~possible(of_present, absent, sigma)


def attack_grid(sigma: float, others: NDArray, own: NDArray) -> tuple[NDArray, NDArray]:
    """The same against releases as they are published, with contributions truncated to the grid."""
    absent = np.rint(others * GRID_BOUND).astype(np.int64)
    present = absent + np.trunc(own * GRID_BOUND).astype(np.int64)
    release = GaussianRelease(
        name="absent",
        rows=own.shape[0],
        width=own.shape[1],
        layout="vector",
        grid_step=1.0 / GRID_BOUND,
        l2_bound=GRID_BOUND,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=sigma,
        covers="numbers of one item",
    )
    budget = Budget(epsilon=1e6, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with tempfile.TemporaryDirectory() as folder:
        published = []
        for name, sums in (("absent", absent), ("present", present)):
            with Ledger.create(Path(folder) / name, budget) as ledger:
                published.append(release.book(ledger, SecureNoise()).publish(sums))
    of_absent, of_present = published
    return ~possible_on_grid(of_absent, present, release), ~possible_on_grid(of_present, absent, release)


def possible_on_grid(published: NDArray, sums: NDArray, release: GaussianRelease) -> NDArray[np.bool_]:
    """Whether a word of the sampler makes ``published`` out of ``sums``; one is found and tried for each number."""
    wanted = (published / release.published_step).astype(np.int64)
    low = (wanted << release.release_shift) - sums  # the noise is in low .. low + 2^shift - 1
    negative = low < 0
    target = np.where(negative, -(low + (1 << release.release_shift) - 1), low).clip(min=0)
    first, last = np.zeros(sums.shape, np.uint64), np.full(sums.shape, SIGN - np.uint64(1))
    for _ in range(
        63
    ):  # of the words without sign, whose draws rise from -9.1 to 0, the last with -draw >= target
        middle = first + (last - first + np.uint64(1)) // np.uint64(2)
        enough = -_noise(middle, release) >= target
        first, last = np.where(enough, middle, first), np.where(enough, last, middle - np.uint64(1))
    words = np.where(negative, first, first | SIGN)
    again = kernels.noisy_sums(
        sums,
        words.reshape(-1),
        stddevs=release.column_stddev(),
        shift=release.release_shift,
        backend=noise_backend(),
    )
    return again * release.published_step == published


def _noise(words: NDArray, release: GaussianRelease) -> NDArray:
    return np.rint(kernels.standard_normal(words, backend=noise_backend()) * release.noise_stddev).astype(
        np.int64
    )


def item_contribution(rng: np.random.Generator, items: int) -> NDArray:
    """Numbers that a user adds to an item, shape (items, 560): w v v^T packed, and w y v, with random unit v."""
    v = rng.standard_normal((items, RANK))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    rows, columns = np.triu_indices(RANK)
    response = rng.uniform(-1, 1, (items, 1))
    return ITEM_WEIGHT * np.concatenate([v[:, rows] * v[:, columns], response * v], axis=1)


def attack(noise: str, sigma: float, others: NDArray, own: NDArray) -> tuple[NDArray, NDArray]:
    """Numbers that prove absence, and numbers that prove presence."""
    if noise == "grid":
        return attack_grid(sigma, others, own)
    return attack_floats(np.float64 if noise == "float64" else np.float32, sigma, others, own)


def single_numbers(noise: str, sigma: float, others: float, draws: int) -> Outcome:
    """One number at a time, each with x = 0.3."""
    own = np.full((draws, 1), CONTRIBUTION)
    absence, presence = attack(noise, sigma, np.full_like(own, others), own)
    return Outcome(
        noise=noise,
        sigma=sigma,
        others=others,
        numbers=1,
        absence_proved=float(np.mean(absence)),
        presence_proved=float(np.mean(presence)),
    )


def whole_items(noise: str, sigma: float, items: int) -> Outcome:
    """All numbers of an item that nobody else rated; one number that proves it is enough."""
    own = item_contribution(np.random.default_rng(0), items)
    absence, presence = attack(noise, sigma, np.zeros_like(own), own)
    return Outcome(
        noise=noise,
        sigma=sigma,
        others=0.0,
        numbers=own.shape[1],
        absence_proved=float(np.mean(absence.any(axis=1))),
        presence_proved=float(np.mean(presence.any(axis=1))),
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command line."""
    parser.add_argument("--draws", type=int, default=50_000, help="numbers per row of the first table")
    parser.add_argument("--items", type=int, default=200, help="items per row of the second table")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Attack single numbers, then whole items, with each kind of noise; on the grid nothing may be proved."""
    kinds = ("float64", "float32", "grid")
    singles = [single_numbers(n, sigma, s, given.draws) for n in kinds for sigma in SIGMAS for s in SUMS]
    whole = [whole_items(n, sigma, given.items) for n in kinds for sigma in SIGMAS]
    proved = [row.absence_proved + row.presence_proved for row in (*singles, *whole) if row.noise == "grid"]
    tables = {"single_numbers": singles, "whole_items": whole}
    return {name: [asdict(row) for row in rows] for name, rows in tables.items()} | {"holds": not any(proved)}
