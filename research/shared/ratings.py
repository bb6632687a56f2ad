"""The ratings of an experiment: the user's own, by whatever reader there is, else what stands for the paper's."""

from collections.abc import Sequence
from pathlib import Path

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.data import find_data
from fedboard.simulations.problem import require_data, says_presence_alone
from fedboard.simulations.sections import DataConfig
from research.shared.experiment import Experiment, Setting

NEAREST = "ml-1m"


def data_of(setting: Setting) -> DataConfig:
    """The user's copy; else MovieLens 1M from ``$FEDBOARD_DATA``, else the synthetic set."""
    if setting.data is not None:
        return setting.data
    nearest = find_data(NEAREST)
    return DataConfig(source=nearest) if Path(nearest).exists() else DataConfig()


def fitting(data: DataConfig, *feedbacks: Feedback) -> tuple[Feedback, ...]:
    """Those of an experiment's kinds of feedback that the data can be read as: play counts are no ratings.

    Raises:
        InputError: the data cannot be read.
    """
    if not says_presence_alone(data):
        return feedbacks
    return tuple(feedback for feedback in feedbacks if feedback is Feedback.IMPLICIT)


def require_fitting(
    experiment: Experiment,
    *,
    data: Sequence[DataConfig] = (),
    epsilons: tuple[float, ...] = (),
    recipe: str | None = None,
    most_users: float | None = None,
    resume: bool = False,
) -> None:
    """See before any work that an experiment can run on what is asked for.

    Args:
        experiment: which.
        data: all of the setting; () for none.
        epsilons: likewise.
        recipe: likewise; None where nobody asks for one.
        most_users: likewise.
        resume: whether to go on with what was interrupted.

    Raises:
        InputError: the data cannot be read or say too little, or the experiment has no use for an option.
    """
    name = f"{experiment.paper} {experiment.figure}"
    for each in data:
        _require_data(name, each, experiment)
    if len(data) > 1 and not experiment.several:
        raise InputError(
            f"{name} takes one --data, got {len(data)}; `python research/run.py {experiment.paper}` says which "
            "figures hold several side by side"
        )
    if epsilons and not experiment.epsilons:
        raise InputError(f"{name} has no epsilon to choose; leave out --epsilon")
    if len(epsilons) > 1 and experiment.one_epsilon:
        raise InputError(f"{name} shows a single epsilon; give one, got {len(epsilons)}")
    if recipe is not None and recipe not in experiment.recipes:
        choice = f"--recipe is {' or '.join(experiment.recipes)}, got {recipe!r}"
        raise InputError(
            f"{name}: {choice if experiment.recipes else 'there is no recipe to choose; leave it out'}"
        )
    if most_users is not None and not experiment.users:
        raise InputError(f"{name} has no number of users to choose; leave out --most-users")
    if most_users is not None and not most_users >= experiment.users[0]:
        raise InputError(f"{name}: --most-users must be at least {experiment.users[0]:,}, got {most_users:g}")
    if resume and not experiment.in_parts:
        raise InputError(f"{name} keeps no parts to go on with; leave out --resume, and choose a new --out")


def _require_data(name: str, data: DataConfig, experiment: Experiment) -> None:
    if experiment.feedbacks:
        _require_ratings(name, data, experiment.feedbacks)
    elif not experiment.files:
        raise InputError(f"{name} makes its own data, as the paper does; leave out --data")
    elif data != DataConfig(source=data.source):
        raise InputError(
            f"{name} reads no table of ratings, so that --format, --columns, --rating-range and --titles mean "
            "nothing to it; leave them out"
        )


def _require_ratings(name: str, data: DataConfig, feedbacks: tuple[Feedback, ...]) -> None:
    require_data(data)
    if not fitting(data, *feedbacks):
        raise InputError(
            f"{data.source} says who used what, not how they liked it, and {name} predicts ratings; take an "
            "experiment on lists, such as krichene 2"
        )
