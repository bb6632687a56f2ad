"""A shared representation: learn it together from sums of rows of norm 1, keep every personal model at home.

The server turns noised sums into an orthonormal representation; what a device sends is in ``device.py``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedboard.common.algorithms.representation import device
from fedboard.common.algorithms.representation.config import (
    INITIALISATION,
    LOSSES,
    AlternationTarget,
    NoisedSettings,
    PersonalSettings,
    RepresentationConfig,
    RepresentationShares,
    curvature_name,
    gradient_name,
    shares_by_release,
)
from fedboard.common.algorithms.shared.algorithm import TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import ROUNDING, ArrayRule
from fedboard.common.algorithms.shared.sums import real_stddev, user_totals
from fedboard.common.algorithms.supervised.examples import ExampleAlgorithm, Examples
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Contribution, Request, of_totals
from fedboard.common.errors import InputError
from fedboard.common.task import ReleasedSums


def unit_total(
    name: str, width: int, settings: NoisedSettings, *, covers: str, scale: float = 1.0
) -> Request:
    """Ask for a sum of rows that each have norm at most ``scale``.

    Matrices are packed so that the norm of a row is theirs (``pack``), hence the plain layout.

    Raises:
        PrivacyError: the settings hold no noise for this release.
    """
    told = f"{covers}, each user's sum scaled to norm 1"
    return user_totals(settings, name, width=width, bound=scale, steps=device.GRID, covers=told)


def leading_directions(matrix: FloatArray, rank: int) -> FloatArray:
    """Eigenvectors of the ``rank`` largest eigenvalues of a symmetric matrix, as columns, largest first.

    Reference: Jain et al. (2021), Alg. 3 line 3.
    """
    _, vectors = np.linalg.eigh(matrix)
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def solved_step(
    curvature: FloatArray, gradient: FloatArray, *, dimension: int, noise_stddev: float
) -> FloatArray:
    """``argmin_Z <vec Z, W vec Z> - 2 <b, vec Z>`` from the noised sums.

    Eigenvalues of W below the edge of its noise, ``s sqrt(d (k + 1))``, are raised to it: where the noise hides the
    curvature, the step is shortened.

    Args:
        curvature: W as ``pack_kronecker`` packs it, float64. Public.
        gradient: b, float64, shape (dimension rank,). Public.
        dimension: d.
        noise_stddev: s, of the noise on one number of W, in its units. Public.

    Returns:
        Z, float64, shape (dimension, rank).

    Reference: Jain et al. (2021), Alg. 2 line 3.
    """
    rank = gradient.size // dimension
    assert curvature.size == device.packed_width(dimension) * device.packed_width(rank)
    values, vectors = np.linalg.eigh(device.unpack_kronecker(curvature, dimension, rank))
    edge = noise_stddev * math.sqrt(dimension * (rank + 1))
    inverse = 1.0 / np.maximum(values, max(edge, np.finfo(float).tiny))
    step: FloatArray = vectors @ (inverse * (vectors.T @ gradient))
    return step.reshape(dimension, rank)


def orthonormal(matrix: FloatArray) -> FloatArray:
    """Q of the QR decomposition, with signs such that the diagonal of R is not negative."""
    q, r = np.linalg.qr(matrix)
    return np.ascontiguousarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))


def zeros_over(catalogue: Catalogue, settings: PersonalSettings) -> FloatArray:
    """The representation of board 0, which holds no data: float64, shape (dimension, rank).

    Raises:
        InputError: the catalogue names fewer features than the rank.
    """
    dimension, rank = catalogue.n_items, settings.rank
    if dimension < rank:
        raise InputError(f"rank {rank} needs at least as many features, got {dimension}")
    return np.zeros((dimension, rank))


def representation_of(board: Board) -> FloatArray:
    """U of a board, float64, shape (dimension, rank), orthonormal columns from version 1 on."""
    return np.asarray(board.arrays["representation"], dtype=np.float64)


def start_request(settings: NoisedSettings, *, dimension: int) -> Request:
    """Ask for the sum that a representation starts from.

    Raises:
        PrivacyError: the settings hold no noise for it.
    """
    covers = "products of pairs of a user's examples"
    return unit_total(INITIALISATION, device.packed_width(dimension), settings, covers=covers)


def started(board: Board, released: ReleasedSums, settings: PersonalSettings) -> FloatArray:
    """U as the noised sum of the start has it, float64, shape (dimension, rank)."""
    return leading_directions(
        device.unpack(released.array(INITIALISATION)[0], board.catalogue.n_items), settings.rank
    )


def own_vectors(examples: Examples, board: Board, settings: PersonalSettings) -> FloatArray:
    """The users' own vectors, float64, shape (n_users, rank). Private."""
    return device.fit_vectors(examples.padded(), representation_of(board), settings)


def predicted(local: FloatArray, board: Board, examples: Examples, settings: PersonalSettings) -> FloatArray:
    """Expected label of each example of each user, float64, shape (n_examples,). Private."""
    padded = examples.padded()
    scores = device.scores_of(padded, representation_of(board), local)
    return LOSSES[settings.loss].predict(scores)[padded.used]


@dataclass(frozen=True, slots=True)
class Representation(TaskOfSettings):
    """Private alternating minimisation for ``y ~ <U^T x, v_j>``: U is on the board, v_j stays with user j.

    Board 0 holds no data; the round after it starts U from pairs of examples (Alg. 3), each later one solves for U
    with everybody's vectors fixed (Alg. 1 and 2). Pure: it holds its public configuration alone.

    Reference: Jain, Rush, Smith, Song, Thakurta (2021), Differentially Private Model Personalization.
    """

    NAME: ClassVar[str] = "representation"
    settings: RepresentationConfig

    def first_board(self, catalogue: Catalogue) -> Board:
        """A representation of zeros over the features that the catalogue names.

        Raises:
            InputError: fewer features than the rank.
        """
        return self.begun(catalogue, representation=zeros_over(catalogue, self.settings))

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """The start, then the alternations, over so many features."""
        packed, rank, settings = device.packed_width(n_items), self.settings.rank, self.settings
        if version == 0:
            return (start_request(settings, dimension=n_items),)
        if version > settings.rounds:
            return ()
        return (
            unit_total(
                curvature_name(version),
                packed * device.packed_width(rank),
                settings,
                covers="curvature of the loss in the representation",
            ),
            unit_total(
                gradient_name(version),
                n_items * rank,
                settings,
                scale=settings.step_bounds[version - 1],
                covers="gradient of the loss in the representation",
            ),
        )

    def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's examples and the board alone."""
        padded = examples.padded()
        if board.version == 0:
            totals = {
                INITIALISATION: device.initial_rows(padded, self.settings, clip_norm=self.settings.clip_norm)
            }
        else:
            t = board.version
            rows = device.alternation_rows(
                padded,
                representation_of(board),
                self.settings,
                step_bound=self.settings.step_bounds[t - 1],
            )
            totals = dict(zip((curvature_name(t), gradient_name(t)), rows, strict=True))
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=examples.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next representation. Pure post-processing of the noised sums."""
        if board.version == 0:
            return board.successor(representation=started(board, released, self.settings))
        dimension = board.catalogue.n_items
        curvature, gradient = self.requests(board)
        step = solved_step(
            released.array(curvature.name)[0],
            released.array(gradient.name)[0],
            dimension=dimension,
            noise_stddev=real_stddev(curvature),
        )
        if self.settings.answer is AlternationTarget.RESIDUAL:
            step = representation_of(board) + step
        return board.successor(representation=orthonormal(step))

    def fit_local(self, examples: Examples, board: Board) -> FloatArray:
        """The users' own vectors, float64, shape (n_users, rank). Private."""
        return own_vectors(examples, board, self.settings)

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """Expected label of each example of each user, float64, shape (n_examples,). Private."""
        return predicted(local, board, examples, self.settings)


def representation_rule(board: Board, rank: int) -> ArrayRule:
    """Columns of norm 1, or zeros on board 0: no entry is beyond 1."""
    shape = (board.catalogue.n_items, rank)
    return ArrayRule(
        name="representation",
        dtype=np.dtype(np.float64),
        shape=shape,
        low=-1.0 - ROUNDING,
        high=1.0 + ROUNDING,
    )


def _array_rules(board: Board, settings: RepresentationConfig) -> tuple[ArrayRule, ...]:
    return (representation_rule(board, settings.rank),)


ALGORITHM = ExampleAlgorithm(
    name=Representation.NAME,
    settings=RepresentationConfig,
    shares=RepresentationShares,
    shares_by_release=shares_by_release,
    task=Representation,
    array_rules=_array_rules,
    fixed={"cohorts": 1},
)
"""Private alternating minimisation."""
