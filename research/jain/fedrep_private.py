"""Private FedRep (Snedeker, Zhou, Bassily 2025): gradient steps on a representation, personal models at home.

An algorithm on examples in one file: ``fedboard simulate --algorithm research/jain/fedrep_private.py:ALGORITHM``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedboard.common.algorithms.representation.algorithm import (
    orthonormal,
    own_vectors,
    predicted,
    representation_of,
    representation_rule,
    start_request,
    started,
    unit_total,
    zeros_over,
)
from fedboard.common.algorithms.representation.config import (
    INITIALISATION,
    LOSSES,
    PersonalSettings,
)
from fedboard.common.algorithms.representation.device import (
    GRID,
    bounded,
    fit_vectors,
    halves,
    initial_rows,
    quantised,
    scores_of,
)
from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.supervised.examples import ExampleAlgorithm, Examples, PaddedExamples
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import Positive, require
from fedboard.common.contribution import Contribution, Request, of_totals
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.task import ReleasedSums

_MOST_USERS = 1e12
USERS = "users"
"""Name of the release of their number, by which sums become means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedRepConfig(PersonalSettings):
    """Everything a device must know to take part. Every field is public by definition.

    The paper's proof has ``split_examples``; its experiments, and the default, take all for both.
    """

    clip_norms: tuple[float, ...] = (0.5, 0.25, 0.12, 0.06, 0.06)
    """psi of each round; their number is that of the rounds T. A user's gradient that is longer is scaled down to
    it, and noise is in proportion to it. In units of a label times a length of v; the paper has one psi for all
    rounds."""
    learning_rate: Positive = 1.0
    """eta: the step is so many mean gradients of ``l / m``, where ``l = (s - y)^2 / 2``; the paper's loss lacks the
    half, so its eta is half of this."""
    initial_clip: Positive = 1e-4
    """Norm in the units of squared labels up to which a user's part in the start is not scaled; tiny, so that all
    weigh alike."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        super(FedRepConfig, self).__post_init__()
        norms = self.clip_norms
        require(bool(norms) and all(map(_positive, norms)), "clip_norms", "numbers > 0", norms)

    @property
    def rounds(self) -> int:
        """T, the gradient steps after the start."""
        return len(self.clip_norms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedRepShares:
    """How mu^2 is shared; each in (0, 1), together below 1. What is left is for the gradients, in equal parts."""

    initialisation: float = 0.3
    """For the start."""
    users: float = 0.02
    """For their number."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a share is not in (0, 1), or nothing is left for the gradients.
        """
        for name in ("initialisation", "users"):
            require(0 < getattr(self, name) < 1, f"share of {name}", "in (0, 1)", getattr(self, name))
        both = self.initialisation + self.users
        require(both < 1, "share of initialisation and users together", "< 1", both)


def shares_by_release(settings: FedRepConfig, shares: FedRepShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, in its order; sums to 1."""
    each = (1.0 - shares.initialisation - shares.users) / settings.rounds
    start = {INITIALISATION: shares.initialisation, USERS: shares.users}
    return start | {gradient_name(t): each for t in range(1, settings.rounds + 1)}


def calibrated(
    settings: FedRepConfig, *, epsilon: float, delta: float, shares: FedRepShares | None = None
) -> FedRepConfig:
    """The same settings with the noise that keeps each user within (epsilon, delta).

    Raises:
        PrivacyError: epsilon or delta is out of range.
    """
    by_release = shares_by_release(settings, shares or FedRepShares())
    return replace(settings, noise_multipliers=noise_multipliers(epsilon, delta, by_release))


def gradient_name(t: int) -> str:
    """Name of the release of the gradient in round t = 1, 2, ..."""
    return f"round-{t}/gradient"


def gradient_rows(
    examples: PaddedExamples, representation: FloatArray, settings: FedRepConfig, *, clip_norm: float
) -> IntArray:
    """Each user's descent direction of her mean loss with respect to U, clipped to psi, in units of psi.

    ``g_j = (1 / m_j) sum_i r_ij x_ij v_j^T`` with r the residuals of her own best v_j on the board's U, and
    ``g_j min(1, psi / |g_j|) / psi`` is her row.

    Guarantee (user-level sensitivity). The row of a user is a function of her examples, the board and public
    settings alone, and its Euclidean norm is at most 1 whatever her examples are and however many she has:
    ``|g min(1, psi / |g|)| <= psi``, division by psi gives at most 1, and rounding toward zero on the grid does not
    lengthen it. So if one user joins or leaves, the sum over users of ``psi`` times these rows moves by at most
    ``psi``; if one is exchanged for another, by at most ``2 psi``. That is the bound that the release states
    (``l2_bound`` grid units at ``psi / GRID`` each, doubled by its adjacency), the noise is the multiplier times
    it, and the multiplier is what is booked. Earlier boards are public by then, so T rounds compose adaptively.

    Args:
        examples: a block of users. Private.
        representation: U on the board, float64, shape (dimension, rank). Public.
        settings: public.
        clip_norm: psi of this round. Public.

    Returns:
        int64, shape (n_users, dimension rank), of norm at most ``GRID``. Private.

    Raises:
        PrivacyError: something is not finite.

    Reference: Snedeker, Zhou, Bassily (2025), Private Model Personalization Revisited, arXiv:2506.19220 (known by
    its abstract and by summaries, not by its full text; ``docs/guide/personalisation.md`` says what that leaves
    open).
    """
    first, second = halves(examples, split=settings.split_examples)
    vectors = bounded(fit_vectors(examples, representation, settings, of=first), settings)
    residuals = LOSSES[settings.loss].residual(scores_of(examples, representation, vectors), examples.labels)
    counted = np.maximum(second.sum(axis=1, keepdims=True), 1.0)
    directions = np.einsum("jid,ji->jd", examples.features, residuals * second / counted)
    norms = np.linalg.norm(directions, axis=1) * np.linalg.norm(vectors, axis=1)
    directions /= np.maximum(norms, clip_norm)[:, None]
    return quantised((directions[:, :, None] * vectors[:, None, :]).reshape(norms.size, -1))


@dataclass(frozen=True, slots=True)
class FedRepPrivate:
    """Private FedRep for ``y ~ <U^T x, v_j>``: U is on the board, v_j stays with user j.

    Board 0 holds no data; the round after it starts U from pairs of examples and counts the users. Each later round
    asks every user for one clipped gradient of ``dimension x rank`` numbers, takes a step along their noised mean,
    and makes the columns orthonormal again. Nothing of the size of ``(dimension rank)^2`` is released, which is
    where alternating minimisation by noised sufficient statistics loses a factor of about ``dimension rank``.

    Pure: it holds its public configuration alone.

    Guarantee: user-level; see ``gradient_rows`` for the bound of each round. Of the start, a user's part is scaled
    to norm at most 1 as a whole (``initial_rows``), and her part in the number of users is 1.

    Reference: Snedeker, Zhou, Bassily (2025), Private Model Personalization Revisited, arXiv:2506.19220; Collins
    et al. (2021), Exploiting Shared Representations for Personalized Federated Learning, arXiv:2102.07078.
    """

    NAME: ClassVar[str] = "fedrep-private"
    settings: FedRepConfig

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        built: Mapping[str, Any] = msgspec.to_builtins(self.settings)
        return built

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """The start, then the gradient steps; widths are the board's when asked."""
        return tuple(self._requests(version, dimension=1) for version in range(self.settings.rounds + 1))

    def first_board(self, catalogue: Catalogue) -> Board:
        """A representation of zeros over the features that the catalogue names.

        Raises:
            InputError: fewer features than the rank.
        """
        arrays = {"representation": zeros_over(catalogue, self.settings), "users": np.ones(1)}
        return Board(version=0, task=self.name, config=self.config, arrays=arrays, catalogue=catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks; nothing after the last step."""
        if board.version > self.settings.rounds:
            return ()
        return self._requests(board.version, dimension=board.catalogue.n_items)

    def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's examples and the board alone."""
        padded = examples.padded()
        totals: dict[str, IntArray]
        if board.version == 0:
            present = np.full((examples.n_users, 1), GRID, dtype=np.int64)
            totals = {
                INITIALISATION: initial_rows(padded, self.settings, clip_norm=self.settings.initial_clip),
                USERS: present,
            }
        else:
            clip_norm = self.settings.clip_norms[board.version - 1]
            rows = gradient_rows(padded, representation_of(board), self.settings, clip_norm=clip_norm)
            totals = {gradient_name(board.version): rows}
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=examples.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next representation. Pure post-processing of the noised sums."""
        if board.version == 0:
            users = np.maximum(released.array(USERS)[0], 1.0)
            return board.successor(representation=started(board, released, self.settings), users=users)
        shape = board.catalogue.n_items, self.settings.rank
        total = released.array(gradient_name(board.version))[0].reshape(shape)
        step = self.settings.learning_rate / float(board.arrays["users"][0]) * total
        return board.successor(representation=orthonormal(representation_of(board) + step))

    def fit_local(self, examples: Examples, board: Board) -> FloatArray:
        """The users' own vectors, float64, shape (n_users, rank). Private."""
        return own_vectors(examples, board, self.settings)

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """Expected label of each example of each user, float64, shape (n_examples,). Private."""
        return predicted(local, board, examples, self.settings)

    def _requests(self, version: int, *, dimension: int) -> tuple[Request, ...]:
        settings = self.settings
        if version == 0:
            return (
                start_request(settings, dimension=dimension),
                unit_total(USERS, 1, settings, covers="how many users there are"),
            )
        return (
            unit_total(
                gradient_name(version),
                dimension * settings.rank,
                settings,
                scale=settings.clip_norms[version - 1],
                covers="gradients of the users' mean losses in the representation",
            ),
        )


def _array_rules(board: Board, settings: FedRepConfig) -> tuple[ArrayRule, ...]:
    users = ArrayRule(name="users", dtype=np.dtype(np.float64), shape=(1,), low=1.0, high=_MOST_USERS)
    return (representation_rule(board, settings.rank), users)


def _positive(value: float) -> bool:
    return 0 < value < math.inf


ALGORITHM = ExampleAlgorithm(
    name=FedRepPrivate.NAME,
    settings=FedRepConfig,
    shares=FedRepShares,
    shares_by_release=shares_by_release,
    task=FedRepPrivate,
    array_rules=_array_rules,
    fixed={},
)
"""Gradient steps in place of noised normal equations."""
