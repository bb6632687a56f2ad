"""What ``fedboard reproduce jain`` can do."""

from fedboard.simulations.experiments.shared.experiment import Experiment, Outcome, Setting

EPSILONS = (1.0, 2.0, 5.0, 10.0)


def _figure_2(setting: Setting) -> Outcome:
    from fedboard.simulations.experiments.jain.figure_2 import Figure2

    return Figure2(epsilons=setting.epsilons_or(*EPSILONS)).run(setting)


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
)
