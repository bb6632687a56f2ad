"""What ``fedboard reproduce liu`` can do."""

from collections.abc import Callable

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.experiments.liu.convergence import figure_4, figure_6
from fedboard.simulations.experiments.liu.privacy import FINITE, figure_7
from fedboard.simulations.experiments.liu.ratings import DATA
from fedboard.simulations.experiments.liu.speed import figure_2, figure_3, figure_5, table_2
from fedboard.simulations.experiments.shared.experiment import Experiment, Outcome, Setting


def _entry(
    figure: str, title: str, minutes: float, run: Callable[[Setting], Outcome], *epsilons: float
) -> Experiment:
    return Experiment(
        paper="liu",
        figure=figure,
        title=title,
        minutes=minutes,
        data=DATA,
        run=run,
        feedbacks=(Feedback.EXPLICIT,),
        epsilons=epsilons,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _entry("2", "Test RMSE against time at high rank: C-SGD and SGLD", 1, figure_2),
    _entry("3", "Throughput against threads at rank 2048", 0.5, figure_3),
    _entry("4", "Test RMSE against the size of the table of Gaussians", 2, figure_4),
    _entry("5", "Seconds for 15 passes against the rank", 0.5, figure_5),
    _entry("6", "Convergence at rank 16: C-SGD overfits, SGLD does not", 0.5, figure_6),
    _entry("7", "Test RMSE against epsilon, in both readings", 4, figure_7, *FINITE),
    _entry("table-2", "What the order of the ratings is worth to the caches", 0.5, table_2),
)
