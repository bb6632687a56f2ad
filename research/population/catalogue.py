"""What ``python research/run.py population`` can do: experiments of our own."""

from fedboard.common.tasks.shared.ratings_config import Feedback
from research.population.curve import EPSILONS, LADDER
from research.population.likeness import likeness
from research.population.utility import utility_curve
from research.shared.experiment import Experiment

_OWN = "population"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        paper=_OWN,
        figure="curve",
        title="Utility against the number of people: how many does which epsilon need?",
        minutes=20,
        data="made-up people, to 100,000 or --most-users; each --data is run beside as many people like its users.",
        run=utility_curve,
        feedbacks=(Feedback.EXPLICIT,),
        several=True,
        epsilons=EPSILONS,
        users=LADDER,
        in_parts=True,
    ),
    Experiment(
        paper=_OWN,
        figure="statistics",
        title="Made-up people beside those whom they were fitted to",
        minutes=4,
        data="--data ratings in whole stars; default ml-1m in $FEDBOARD_DATA, else synthetic.",
        run=likeness,
        feedbacks=(Feedback.EXPLICIT,),
    ),
)
