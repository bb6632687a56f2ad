"""What ``python research/run.py liu`` can do."""

from collections.abc import Callable

from fedboard.common.tasks.shared.ratings_config import Feedback
from research.liu.convergence import figure_4, figure_6
from research.liu.exact import EPSILONS as EXACT_EPSILONS
from research.liu.exact import algorithm_1
from research.liu.gibbs import section_5_4
from research.liu.memory import table_1
from research.liu.personal import LEVEL_EPSILON, RULE_EPSILON, section_6_7, theorem_2
from research.liu.popularity import figure_1
from research.liu.privacy import FINITE, figure_7
from research.liu.ratings import DATA
from research.liu.speed import figure_2, figure_3, figure_5, table_2
from research.shared.experiment import Experiment, Outcome, Setting


def _entry(
    figure: str,
    title: str,
    minutes: float,
    run: Callable[[Setting], Outcome],
    *epsilons: float,
    one_epsilon: bool = False,
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
        one_epsilon=one_epsilon,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        paper="liu",
        figure="1",
        title="How many items have how many ratings",
        minutes=0.2,
        data="--data Netflix, Yahoo or any ratings, each with a --data; default ml-1m in $FEDBOARD_DATA, else "
        "synthetic.",
        run=figure_1,
        feedbacks=tuple(Feedback),
        several=True,
    ),
    _entry("2", "Test RMSE against time at high rank: C-SGD and SGLD", 1, figure_2),
    _entry("3", "Throughput against threads at rank 2048", 0.5, figure_3),
    _entry("4", "Test RMSE against the size of the table of Gaussians", 2, figure_4),
    _entry("5", "Seconds for 15 passes against the rank", 0.5, figure_5),
    _entry("6", "Convergence at rank 16: C-SGD overfits, SGLD does not", 0.5, figure_6),
    _entry("7", "Test RMSE against epsilon, in both readings", 4, figure_7, *FINITE),
    Experiment(
        paper="liu",
        figure="table-1",
        title="Bandwidth of caches, memory and disk of this machine",
        minutes=0.1,
        data="none: this machine is measured",
        run=table_1,
    ),
    _entry("table-2", "What the order of the ratings is worth to the caches", 0.5, table_2),
    Experiment(
        paper="liu",
        figure="algorithm-1",
        title="The exact sample where it can be counted: its epsilon",
        minutes=0.5,
        data="none: every case of a tiny problem",
        run=algorithm_1,
        epsilons=EXACT_EPSILONS,
    ),
    _entry(
        "theorem-2",
        "Users who ask for an epsilon of their own: what it costs whom",
        2,
        theorem_2,
        LEVEL_EPSILON,
        one_epsilon=True,
    ),
    _entry("section-5-4", "Precisions with a Gamma prior, drawn by Gibbs steps", 1, section_5_4),
    _entry(
        "section-6-7",
        "Epsilon of one rating and of a typical user",
        1,
        section_6_7,
        RULE_EPSILON,
        one_epsilon=True,
    ),
)
