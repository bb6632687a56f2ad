"""Public configuration of non-private alternating least squares, with the defaults for each kind of feedback."""

from dataclasses import dataclass

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.checks import require


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsConfig:
    """Options of one fit. Every field is public; ``default_als`` knows good values."""

    feedback: Feedback
    rank: int
    """Length of the embeddings, biases not counted; >= 1."""
    sweeps: int
    """Alternations, a user step and an item step each; >= 1."""
    user_ridge: float
    """Strength of the ridge on user vectors; > 0. See ``ridge_exponent`` fields."""
    item_ridge: float
    """Strength of the ridge on item vectors; > 0."""
    user_ridge_exponent: float
    """User j's ridge is user_ridge (n_j + unobserved_weight n_items)^exponent, the bracket at least 1."""
    item_ridge_exponent: float
    """Item i's ridge is item_ridge (n_i + unobserved_weight n_users)^exponent, the bracket at least 1."""
    biases: bool = False
    """Explicit feedback only: fit a bias per user and per item, under the same ridge as the vectors."""
    unobserved_weight: float = 0.0
    """alpha0: weight of all (user, item) pairs as zeros; > 0 for implicit and 0 for explicit feedback."""
    rating_range: tuple[float, float] | None = None
    """Lowest and highest possible rating, for explicit feedback: predictions are clipped to it."""
    unit: float = 1.0
    """Ratings are fitted in this many stars, so that ridges mean the same on every scale; > 0."""
    seed: int = 0
    """Seed of the random first item vectors; >= 0."""
    backend: str = "numpy"
    """Which kernels compute, see ``fedboard.common.kernels``; changes results by rounding only."""
    threads: int = 1
    """Threads for fitting; >= 1, never changes a result. Prediction uses one: processes share that work."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        for name in ("rank", "sweeps", "threads"):
            require(getattr(self, name) >= 1, name, "a whole number >= 1", getattr(self, name))
        for name in ("user_ridge", "item_ridge", "unit"):
            require(0 < getattr(self, name) < float("inf"), name, "finite and > 0", getattr(self, name))
        for name in ("user_ridge_exponent", "item_ridge_exponent"):
            require(0 <= getattr(self, name) <= 1, name, "in [0, 1]", getattr(self, name))
        require(self.seed >= 0, "seed", "a whole number >= 0", self.seed)
        if self.feedback is Feedback.EXPLICIT:
            require(self.unobserved_weight == 0, "unobserved_weight", "0 if explicit", self.unobserved_weight)
            ascends = self.rating_range is not None and self.rating_range[0] < self.rating_range[1]
            require(ascends, "rating_range", "(lowest, highest) if explicit", self.rating_range)
        else:
            finite = 0 < self.unobserved_weight < float("inf")
            require(finite, "unobserved_weight", "finite and > 0 if implicit", self.unobserved_weight)
            require(not self.biases, "biases", "False if implicit", self.biases)


def default_als(
    feedback: Feedback,
    *,
    rating_range: tuple[float, float] | None = None,
    rank: int | None = None,
    seed: int = 0,
    backend: str = "numpy",
    threads: int = 1,
) -> AlsConfig:
    """The one place that holds tuned settings, by kind of feedback.

    Args:
        feedback: explicit or implicit.
        rating_range: lowest and highest possible rating; needed for explicit feedback.
        rank: None for the tuned one.
        seed: of the random first item vectors.
        backend: which kernels compute.
        threads: for fitting.
    """
    if feedback is Feedback.EXPLICIT:
        # Tuned at rank 8 on a validation part of ml-1m-x12 (72 480 users, 3 449 items, 7.0M ratings). Halving or
        # doubling one ridge, or other exponents with the ridges tuned again, cost up to 0.003. Test RMSE 0.855;
        # without biases 0.860, at user_ridge 4 and the rest as here.
        return AlsConfig(
            feedback=feedback,
            rank=8 if rank is None else rank,
            sweeps=16,
            user_ridge=6.0,
            item_ridge=1.0,
            user_ridge_exponent=0.25,
            item_ridge_exponent=0.5,
            biases=True,
            rating_range=rating_range,
            seed=seed,
            backend=backend,
            threads=threads,
        )
    # Tuned by Recall@20 on the validation users of ml-1m (4 828 users to learn from, 3 449 items, ratings above
    # 3.5), ranks 8 to 64. unobserved_weight 0.2 to 0.4 and ridges 0.004 to 0.01 lose up to 0.015; rank 32 loses
    # 0.015, rank 16 0.04. Test users: Recall@20 0.36, NDCG@20 0.34 (popularity: 0.18 and 0.16).
    return AlsConfig(
        feedback=feedback,
        rank=64 if rank is None else rank,
        sweeps=8,
        user_ridge=0.006,
        item_ridge=0.006,
        user_ridge_exponent=1.0,
        item_ridge_exponent=1.0,
        unobserved_weight=0.3,
        rating_range=rating_range,
        seed=seed,
        backend=backend,
        threads=threads,
    )
