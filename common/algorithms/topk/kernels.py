"""Public kernels between items: how alike features and titles say that they are.

A release of this size cannot carry which items are near neighbours; kernels of public features can. They are
represented along a few common columns, Psi, so that devices need no features and large catalogues no m' x m'
matrix: exactly for the landmarks (the most popular items), by Nystroem's extension for the others.

From directions, energies and kernels to what a device scores by: item-based regression on denoised moments.

The items' second moments are taken to be

    C = E diag(e) E^T + sum_q tau_q K_q  off the diagonal,  max(n p, .) + lambda  on it

and with P = C^-1 a person's score of item i is the regression of x_i on her other items, sum_l x_l (-P_il / P_ii).
C is low rank plus diagonal, so P off the diagonal is -G G^T with G of the same width, and
``<G_i, sum_l G_l> / P_ii`` is all that a device computes.

Reference: Steck (2019), Embarrassingly shallow autoencoders (P and its diagonal); Haseman and Elston (1972) (tau).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedboard.common.algorithms.shared.regression import standardised, unit_rows
from fedboard.common.algorithms.topk.basis import Directions
from fedboard.common.algorithms.topk.device import KERNELS
from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.board import Catalogue

_LANDMARKS = 1500
_BLOCK = 4096
_LEAST = 1e-6
_WORD = re.compile(r"[^\W_]+")
_YEAR = re.compile(r"\s*\(\d{4}[^()]*\)\s*$")
_STOP = frozenset(_WORD.findall("the a an of and in to i ii iii iv v vi le la les de part on at for"))
_MOST_WORDS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Kernels of norm 1 off the diagonal, ``K_q = Psi A_q Psi^T``. Public."""

    columns: FloatArray
    """Psi: float64, shape (m', rank); zeros from where there are no more columns."""
    forms: FloatArray
    """A_q: float64, shape (KERNELS, rank, rank)."""


def public_kernels(
    catalogue: Catalogue, items: IndexArray, scale: FloatArray, *, rank: int
) -> Kernels | None:
    """The kernels between the learnt items, or None where the catalogue has no features.

    Args:
        catalogue: public.
        items: numbers of the learnt items, shape (m',).
        scale: of the items: kernel entry (i, l) is ``scale_i scale_l`` times how alike they are. Released.
        rank: width of Psi.
    """
    if catalogue.features is None:
        return None
    known = _Known.of(catalogue, items)
    landmarks = np.sort(np.argsort(-scale, kind="stable")[:_LANDMARKS]).astype(np.int32)
    near = [
        part * np.outer(scale[landmarks], scale[landmarks]) for part in known.between(landmarks, landmarks)
    ]
    norms = [max(_off_diagonal_norm(part), 1e-300) for part in near]
    together = np.sum([part / norm for part, norm in zip(near, norms, strict=True)], axis=0)
    values, vectors = np.linalg.eigh(together)
    kept = np.argsort(-values, kind="stable")[:rank]
    kept = kept[values[kept] > _LEAST * max(float(values.max(initial=0.0)), 1e-300)]
    axes = vectors[:, kept]
    columns, forms = np.zeros((items.size, rank)), np.zeros((KERNELS, rank, rank))
    columns[:, : kept.size] = _extended(known, scale, landmarks, norms, axes / values[kept])
    columns[landmarks, : kept.size] = axes
    for number, part in enumerate(near):
        forms[number, : kept.size, : kept.size] = axes.T @ part @ axes
    return _unit_kernels(columns, forms)


def diagonals(kernels: Kernels) -> FloatArray:
    """The diagonal of each kernel: float64, shape (KERNELS, m')."""
    return np.stack(
        [np.einsum("ir,ir->i", kernels.columns @ form, kernels.columns) for form in kernels.forms]
    )


def inner_products(kernels: Kernels) -> FloatArray:
    """<K_a, K_b> off the diagonal: float64, shape (KERNELS, KERNELS)."""
    gram, own = kernels.columns.T @ kernels.columns, diagonals(kernels)
    turned = [form @ gram for form in kernels.forms]
    whole = np.array([[float(np.sum(a * b.T)) for b in turned] for a in turned])
    return whole - own @ own.T


def _unit_kernels(columns: FloatArray, forms: FloatArray) -> Kernels:
    squares = np.diag(inner_products(Kernels(columns=columns, forms=forms)))
    usable = squares > 1e-12 * max(float(squares.max(initial=0.0)), 1e-300)
    scale = np.where(usable, 1.0 / np.sqrt(np.where(usable, squares, 1.0)), 0.0)
    return Kernels(columns=columns, forms=forms * scale[:, None, None])


def _extended(
    known: "_Known", scale: FloatArray, landmarks: IndexArray, norms: Sequence[float], axes: FloatArray
) -> FloatArray:
    """Nystroem: columns of all items from their kernels with the landmarks, block by block."""
    found = np.empty((scale.size, axes.shape[1]))
    for first in range(0, scale.size, _BLOCK):
        rows = np.arange(first, min(first + _BLOCK, scale.size), dtype=np.int32)
        parts = known.between(rows, landmarks)
        together = np.sum([part / norm for part, norm in zip(parts, norms, strict=True)], axis=0)
        found[rows] = (together * np.outer(scale[rows], scale[landmarks])) @ axes
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is publicly known of the learnt items."""

    labels: FloatArray
    """Rows of norm 1, or 0: labels, and coordinates where numbers are many."""
    numbers: FloatArray
    """In deviations."""
    words: FloatArray
    """Of the titles, rows of norm 1, or 0."""

    @staticmethod
    def of(catalogue: Catalogue, items: IndexArray) -> "_Known":
        features = catalogue.features
        assert features is not None  # public_kernels asked
        numbers = standardised(features.numbers[items].astype(np.float64))
        labels = unit_rows(features.labels[items].astype(np.float64))
        if numbers.shape[1] > 3:
            labels, numbers = unit_rows(np.hstack([labels, unit_rows(numbers)])), numbers[:, :0]
        titles = None if catalogue.titles is None else [catalogue.titles[item] for item in items]
        return _Known(labels=labels, numbers=numbers, words=_words(titles, items.size))

    def between(self, rows: IndexArray, others: IndexArray) -> list[FloatArray]:
        """The kernels, unscaled: float64, each of shape (n_rows, n_others).

        With g the cosine of the labels, y the distance along the numbers and w the cosine of the titles' words:
        g^2 e^-2y, g^4 e^-5.6y, g^2, e^-4.2y, w, w g.
        """
        alike = self.labels[rows] @ self.labels[others].T
        titled = self.words[rows] @ self.words[others].T
        apart = np.zeros(alike.shape)
        for number in self.numbers.T:
            apart += np.abs(number[rows, None] - number[others]) / self.numbers.shape[1]
        squared = alike**2
        near = np.exp(-4.2 * apart) * float(self.numbers.shape[1] > 0)
        return [
            squared * np.exp(-2.0 * apart),
            squared**2 * np.exp(-5.6 * apart),
            squared,
            near,
            titled,
            titled * alike,
        ]


def _words(titles: Sequence[str] | None, n_items: int) -> FloatArray:
    """Words that several titles share, the rarer the heavier: float64, shape (n_items, n_words), rows of norm 1."""
    if titles is None:
        return np.zeros((n_items, 1))
    of_title = [set(_WORD.findall(_YEAR.sub("", title).lower())) - _STOP for title in titles]
    carried = Counter(word for words in of_title for word in sorted(words))
    shared = [word for word, number in carried.most_common() if number > 1][-_MOST_WORDS:]
    place = {word: column for column, word in enumerate(shared)}
    rows = np.zeros((n_items, max(len(shared), 1)))
    for item, words in enumerate(of_title):
        for word in words & place.keys():
            rows[item, place[word]] = np.sqrt(np.log(n_items / carried[word]))
    return unit_rows(rows)


def _off_diagonal_norm(matrix: FloatArray) -> float:
    return float(np.sqrt(max(np.sum(matrix**2) - np.sum(np.diag(matrix) ** 2), 0.0)))


_SPREAD, _LEAST_SPREAD = 0.3, 0.5
"""What an energy is believed to be from its singular value: within 30 % of it, and half a user."""
_RIDGE = 0.02
_OWN = 1.02
"""The diagonal of what is of low rank is exceeded at least by so much."""
_LEAST_OWN = 0.1
"""Share of an item's diagonal that is its own at least: C is positive definite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What lists are made of. Public."""

    factors: FloatArray
    """G: float64, shape (m', width)."""
    scale: FloatArray
    """1 / P_ii > 0: float64, shape (m',)."""


def scores_of(
    directions: Directions,
    kernels: Kernels | None,
    released: FloatArray,
    own: FloatArray,
    *,
    stddev: float,
    diagonal: float,
) -> Scores:
    """G and the diagonal of P.

    Args:
        directions: E with what is believed of it.
        kernels: of norm 1 off the diagonal, or None.
        released: energies along directions, then kernels; float64, shape (n + KERNELS,) or longer than n.
        own: n p, how much of the second moments is each item's own; float64, shape (m',).
        stddev: noise deviation of each energy, > 0.
        diagonal: lambda > 0.
    """
    number = directions.values.size
    strength = _believed(released[:number], directions.values, stddev) * directions.agreement
    parts = [directions.axes * np.sqrt(strength)]
    low_rank = np.sum(parts[0] ** 2, axis=1)
    if kernels is not None:
        parts.append(_kernel_part(kernels, released[number:], directions.axes, strength))
    factors = np.hstack(parts)
    wanted = np.maximum(own, _OWN * low_rank) + diagonal
    left = np.maximum(wanted - np.sum(factors**2, axis=1), _LEAST_OWN * wanted)
    inner = np.eye(factors.shape[1]) + factors.T @ (factors / left[:, None])
    found = np.linalg.solve(np.linalg.cholesky(inner), (factors / left[:, None]).T).T
    precision = 1.0 / left - np.sum(found**2, axis=1)  # > 0: the diagonal of an inverse
    return Scores(factors=found, scale=1.0 / np.maximum(precision, 1e-12))


def _believed(noisy: FloatArray, values: FloatArray, stddev: float) -> FloatArray:
    """Energies, pulled to what the singular values say as far as their noise demands."""
    least = np.maximum(noisy, 0.0)
    expected = float(least @ values) / max(float(values @ values), 1e-300) * values
    spread = (_SPREAD * expected + _LEAST_SPREAD) ** 2
    return (least * spread + expected * stddev**2) / (spread + stddev**2)


def _kernel_part(kernels: Kernels, noisy: FloatArray, axes: FloatArray, strength: FloatArray) -> FloatArray:
    """A square root of sum tau_q K_q, tau by non-negative regression of what the directions do not explain."""
    from scipy.optimize import nnls

    along = kernels.columns.T @ axes
    explained = np.array([float(np.sum((form @ along) * along * strength)) for form in kernels.forms])
    explained -= diagonals(kernels) @ (axes**2 @ strength)
    ridge = _RIDGE * np.eye(noisy.size)
    tau, _ = nnls(inner_products(kernels) + ridge, noisy - explained)
    values, vectors = np.linalg.eigh(np.tensordot(tau, kernels.forms, axes=1))
    root: FloatArray = kernels.columns @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return root
