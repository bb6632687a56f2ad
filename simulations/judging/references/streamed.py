"""Models without privacy of streamed people. Not private: simulation only."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.baselines import BiasConfig, LocalModel, Predictor
from fedboard.simulations.baselines.streamed import (
    StreamedCounts,
    StreamedTrain,
    count_stream,
    streamed_als,
    streamed_bias,
    streamed_item_mean,
    streamed_popularity,
)
from fedboard.simulations.engine.pool import JobRunner
from fedboard.simulations.judging.references.known import ALS, als_config, ceiling_names, require_reference
from fedboard.simulations.streams.problem import StreamedProblem
from fedboard.simulations.streams.split_blocks import StreamBlocks, span_bounds


class StreamedReferences:
    """Fits them, and counts what all of them need once."""

    def __init__(self, problem: StreamedProblem, feedback: Feedback, *, pool: JobRunner) -> None:
        """Read nothing yet.

        Args:
            problem: private.
            feedback: what a rating says.
            pool: who computes; a job is a span of users.
        """
        source = StreamBlocks(stream=problem.stream, splitting=problem.splitting)
        self._problem, self._feedback = problem, feedback
        self._train = StreamedTrain(source=source, spans=span_bounds(source.n_users), pool=pool)

    @cached_property
    def counts(self) -> StreamedCounts:
        """Of all users."""
        return count_stream(self._train)

    def fit(
        self, name: str, *, backend: str, settings: Mapping[str, Any] | None = None, seed: int = 0
    ) -> Predictor:
        """Fit one; arguments as of ``fit_reference``.

        Raises:
            InputError: as there; or the model needs everything in memory.
        """
        chosen = require_reference(name, self._feedback, settings)
        if name in ceiling_names(self._feedback):
            raise InputError(
                f"{name} is chosen by fitting many candidates to ratings in memory, and these are streamed; take "
                f"{ALS}, or run it on a sample that fits into memory"
            )
        match name:
            case "item-mean":
                return streamed_item_mean(self.counts, rating_range=self._problem.rating_range)
            case "user-item-bias":
                config = BiasConfig(rating_range=self._problem.rating_range, backend=backend)
                return streamed_bias(self._train, self.counts, config)
            case "local-only":
                return LocalModel(n_items=self._train.source.n_items, rating_range=self._problem.rating_range)
            case "popularity":
                return streamed_popularity(self.counts)
        counts = self.counts
        als = als_config(
            chosen,
            self._feedback,
            rating_range=self._problem.rating_range,
            size=(max(counts.n_active, 1), counts.item_counts.size, counts.n_ratings),
        )
        return streamed_als(self._train, counts, replace(als, seed=seed, backend=backend))
