"""What a user gives to a round of private FedRep: her gradient, clipped, on the integer grid."""

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.tasks.fedrep_private.config import FedRepConfig
from fedboard.common.tasks.on_examples.examples import PaddedExamples
from fedboard.common.tasks.representation.local import bounded, fit_vectors, scores_of
from fedboard.common.tasks.representation.losses import LOSSES
from fedboard.common.tasks.representation.statistics import halves, quantised


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
