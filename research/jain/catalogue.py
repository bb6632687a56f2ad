"""What ``python research/run.py jain`` can do."""

from research.shared.experiment import Experiment, Outcome, Setting

EPSILONS = (1.0, 2.0, 5.0, 10.0)
CHOICE_EPSILONS = (0.1, 0.3, 1.0, 3.0)
CROSSING_EPSILONS = (0.3, 1.0, 3.0, 10.0)


def _figure_2(setting: Setting) -> Outcome:
    from research.jain.figure_2 import Figure2

    return Figure2(epsilons=setting.epsilons_or(*EPSILONS)).run(setting)


def _algorithm_4(setting: Setting) -> Outcome:
    from research.jain.algorithm_4 import Algorithm4

    return Algorithm4(epsilons=setting.epsilons_or(*CHOICE_EPSILONS)).run(setting)


def _fedrep(setting: Setting) -> Outcome:
    from research.jain.fedrep import FedRepBeside

    return FedRepBeside(epsilons=setting.epsilons_or(*CROSSING_EPSILONS)).run(setting)


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        paper="jain",
        figure="2",
        title="Error of personal models against epsilon, linear regression",
        minutes=4.0,
        data="Made up as in the paper: 50,000 users, 10 examples each, 50 features, rank 2. Takes no --data.",
        run=_figure_2,
        epsilons=EPSILONS,
    ),
    Experiment(
        paper="jain",
        figure="algorithm-4",
        title="A representation chosen from a net by the exponential mechanism",
        minutes=1.0,
        data="Made up: 4,000 users, 2 examples each, 3 features, rank 1: a net is small enough. Takes no --data.",
        run=_algorithm_4,
        epsilons=CHOICE_EPSILONS,
    ),
    Experiment(
        paper="jain",
        figure="fedrep",
        title="Its successor, private FedRep, beside it: error against users, features, rank and epsilon",
        minutes=8.0,
        data="Made up: 5,000 users, 10 examples each, 20 features, rank 2, each varied by itself. Takes no --data.",
        run=_fedrep,
        epsilons=CROSSING_EPSILONS,
    ),
)
