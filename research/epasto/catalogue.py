"""The experiments of Epasto et al. (2020), Smoothly bounding user contributions in differential privacy."""

from research.epasto.examples import example_1, example_3, theorem_2
from research.epasto.gradients import algorithm_2
from research.epasto.reviews import (
    REGRESSION_EPSILONS,
    RISK_EPSILONS,
    table_1,
    table_1_news,
    table_2,
    table_2_news,
)
from research.epasto.synthetic import figure_1, figure_2, figure_3
from research.shared.experiment import Experiment

_SYNTHETIC = "synthetic, made as in the paper"
_REVIEWS = "--data druglib/ (UCI Drug Review, Druglib.com)"
_NEWS = "none: made up with the sizes and ranges that the paper gives"
_MADE_UP = "none: a constructed example"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        paper="epasto",
        figure="1",
        title="label-private regression: error against the number of rows, epsilon 1",
        minutes=1,
        data=_SYNTHETIC,
        run=figure_1,
        epsilons=(1.0,),
        one_epsilon=True,
    ),
    Experiment(
        paper="epasto",
        figure="2",
        title="label-private regression: error against the Zipf exponent, epsilon 1",
        minutes=2,
        data=_SYNTHETIC,
        run=figure_2,
        epsilons=(1.0,),
        one_epsilon=True,
    ),
    Experiment(
        paper="epasto",
        figure="3",
        title="label-private regression: error against the number of rows, epsilon 2 and 3",
        minutes=2,
        data=_SYNTHETIC,
        run=figure_3,
        epsilons=(2.0, 3.0),
    ),
    Experiment(
        paper="epasto",
        figure="table-1",
        title="label-private regression on drug reviews (or news)",
        minutes=0.5,
        data=_REVIEWS + ", or a folder with News_Final.csv and one file of posts (UCI News Popularity)",
        run=table_1,
        epsilons=REGRESSION_EPSILONS,
        files=True,
    ),
    Experiment(
        paper="epasto",
        figure="table-2",
        title="logistic regression on drug reviews by weighted empirical risk",
        minutes=0.5,
        data=_REVIEWS,
        run=table_2,
        epsilons=RISK_EPSILONS,
        files=True,
    ),
    Experiment(
        paper="epasto",
        figure="table-1-news",
        title="label-private regression on posts like the paper's news",
        minutes=2,
        data=_NEWS,
        run=table_1_news,
        epsilons=REGRESSION_EPSILONS,
    ),
    Experiment(
        paper="epasto",
        figure="table-2-news",
        title="logistic regression on posts like the paper's news",
        minutes=0.5,
        data=_NEWS,
        run=table_2_news,
        epsilons=RISK_EPSILONS,
    ),
    Experiment(
        paper="epasto",
        figure="algorithm-2",
        title="weighted empirical risk by noisy gradients and by output perturbation",
        minutes=6,
        data=_REVIEWS,
        run=algorithm_2,
        epsilons=RISK_EPSILONS,
        files=True,
    ),
    Experiment(
        paper="epasto",
        figure="theorem-2",
        title="means: sample limits cost up to 3/2 on this example",
        minutes=0.1,
        data=_MADE_UP,
        run=theorem_2,
    ),
    Experiment(
        paper="epasto",
        figure="example-1",
        title="regression: a gap to sample limits that grows without bound",
        minutes=0.5,
        data=_MADE_UP,
        run=example_1,
    ),
    Experiment(
        paper="epasto",
        figure="example-3",
        title="regression on rows of length 1: the gap to sample limits still grows",
        minutes=0.5,
        data=_MADE_UP,
        run=example_3,
    ),
)
