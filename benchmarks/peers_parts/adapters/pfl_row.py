"""``pfl``: the private round as a ``FederatedAlgorithm`` on its ``SimulatedBackend``.

A user gives dense statistics over all items, since ``pfl`` adds arrays; it clips them to the bounds by its own
``GaussianMechanism``, one for each statistic in a ``JointMechanism``, and noises the sums centrally. What a user
computes and what the server solves is the NumPy code of ``plain_round``.
"""

from typing import Any

import numpy as np
from harness import Arrays, Job, Told, measured
from plain_round import Board, bounds_of, first_board, next_board, user_part


def load() -> Any:
    import pfl.internal.ops.numpy_ops as ops
    from pfl.internal.ops.selector import set_framework_module

    set_framework_module(ops)
    return algorithm_class()


def algorithm_class() -> Any:
    from pfl.algorithm.base import FederatedAlgorithm
    from pfl.common_types import Population
    from pfl.context import CentralContext
    from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
    from pfl.metrics import Metrics
    from pfl.model.base import Model
    from pfl.stats import MappedVectorStatistics

    class BoardModel(Model):  # type: ignore[misc, type-arg]
        """The public board."""

        def __init__(self, board: Board) -> None:
            self.board = board

        def apply_model_update(self, statistics: Any) -> Any:
            self.board = next_board(self.board, statistics["quadratic"], statistics["linear"])
            return self, Metrics()

    class ItemStatistics(FederatedAlgorithm):  # type: ignore[misc, type-arg]
        """Sums of item statistics, a round an iteration."""

        def __init__(self, rounds: int, cohort: int) -> None:
            super().__init__()
            self.rounds, self.cohort = rounds, cohort

        def get_next_central_contexts(self, model: Any, iteration: int, *_: Any) -> Any:
            if iteration == self.rounds:
                return None, model, Metrics()
            context = CentralContext(
                current_central_iteration=iteration,
                do_evaluation=False,
                cohort_size=self.cohort,
                population=Population.TRAIN,
                algorithm_params=AlgorithmHyperParams(),
                model_train_params=ModelHyperParams(),
                seed=self._get_seed(),
            )
            return (context,), model, Metrics()

        def simulate_one_user(self, model: Any, user_dataset: Any, _: Any) -> Any:
            items, ratings = user_dataset.raw_data
            quadratic, linear = user_part(items, ratings, model.board)
            n_items = model.board.factors.shape[0]
            whole = {
                "quadratic": np.zeros((n_items, quadratic.shape[1]), np.float32),
                "linear": np.zeros((n_items, linear.shape[1]), np.float32),
            }
            whole["quadratic"][items], whole["linear"][items] = quadratic, linear
            return MappedVectorStatistics(whole, weight=1.0), Metrics()

        def process_aggregated_statistics(
            self, _context: Any, _metrics: Any, model: Any, statistics: Any
        ) -> Any:
            return model.apply_model_update(statistics)

    return BoardModel, ItemStatistics


def prepare(_: Any, job: Job) -> Any:
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import MinimizeReuseUserSampler

    bounds = job.row_bounds()
    users = [int(user) for user in np.flatnonzero(np.diff(bounds))]

    def rows(user: int) -> Any:
        span = slice(bounds[user], bounds[user + 1])
        return Dataset((job.item[span], job.rating[span]), user_id=str(user))

    return FederatedDataset(rows, MinimizeReuseUserSampler(users)), len(users)


def fit(library: Any, job: Job, ready: Any) -> tuple[Arrays, Told]:
    from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams

    (board_model, item_statistics), (data, n_users) = library, ready
    model = board_model(first_board(job.spec, job.arrays))
    np.random.seed(job.spec["seed"])  # noqa: NPY002
    algorithm, backend = item_statistics(job.spec["epochs"], n_users), backend_of(job, data)
    parameters = AlgorithmHyperParams(), backend, model, ModelHyperParams()
    algorithm.run(*parameters, send_metrics_to_platform=False)
    return {"items": model.board.factors}, {}


def backend_of(job: Job, data: Any) -> Any:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.privacy.gaussian_mechanism import GaussianMechanism
    from pfl.privacy.joint_mechanism import JointMechanism
    from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

    each = job.spec["noise"][0]  # the same in every round of the job
    names = zip(("quadratic", "linear"), bounds_of(job.spec), each, strict=True)
    mechanisms = {name: (GaussianMechanism(bound, times), [name]) for name, bound, times in names}
    private = CentrallyAppliedPrivacyMechanism(JointMechanism(mechanisms))
    return SimulatedBackend(training_data=data, val_data=data, postprocessors=[private])


if __name__ == "__main__":
    measured("pfl", load, prepare, fit)
