"""Which split a configuration names, and whether it goes with the data."""

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.splits import RatingSplitting, SplitRule, Splitting, UserSplitting
from fedboard.simulations.data.splits.coins import Fold, SplitCoins
from fedboard.simulations.data.splits.splitting import DEFAULT_SHARE
from fedboard.simulations.data.splits.times import ByDate, ByLast, TimeRule, public_time
from fedboard.simulations.data.stream import UserStream
from fedboard.simulations.sections import SplitConfig


def splitting_of(config: SimulationConfig, data: Ratings | UserStream) -> Splitting:
    """The splitting that a configuration names.

    Args:
        config: of the run.
        data: what is split; of it only what is public, and whether it has times and a test part of its own.

    Raises:
        InputError: the split does not fit the feedback or the data.
    """
    split, explicit = config.split, config.feedback is Feedback.EXPLICIT
    _require_fitting(config, data.name, presence=data.presence)
    own_test = isinstance(data, Ratings) and data.test is not None
    rule: SplitRule | TimeRule
    if split.by_time:
        _require_times(data, own_test=own_test)
        rule = _time_rule(split)
    else:
        fold = _fold_of(split)
        if own_test and explicit and fold is not None:
            raise InputError(
                f"{data.name} brings a test part of its own, so there are no folds of it: leave out split.folds."
            )
        test = split.test if explicit else split.held_out_users
        usual = (0.0 if own_test else DEFAULT_SHARE) if split.validation is None else split.validation
        rule = SplitRule(
            coins=SplitCoins(split.seed),
            validation=usual if explicit else split.held_out_users,
            test=0.0 if own_test and explicit else test if fold is None else fold.share,
            fold=fold,
        )
    if explicit:
        return RatingSplitting(rule=rule)
    return UserSplitting(rule=rule, positive_above=split.positive_above, presence=data.presence)


def _require_times(data: Ratings | UserStream, *, own_test: bool) -> None:
    """See that a split by time can be made.

    Raises:
        InputError: it cannot.
    """
    leave_out = "leave out split.test_from and split.leave_last"
    if own_test:
        raise InputError(
            f"{data.name} brings a test part of its own, so it is not split by time: {leave_out}."
        )
    if not isinstance(data, Ratings):
        raise InputError(
            f"streamed ratings are split by coins, since blocks bring no times: {leave_out}, or run without "
            "streaming"
        )
    if data.times is None or not data.times.any():
        raise InputError(
            f"{data.name} does not say when anything was rated, or that all was at 0, so it cannot be split by "
            f"time: load it with times, or {leave_out}."
        )


def _require_fitting(config: SimulationConfig, name: str, *, presence: bool) -> None:
    """See that data, feedback and split go together.

    Args:
        config: of the run.
        name: of the data set.
        presence: whether its rows say only who used what.

    Raises:
        InputError: they do not.
    """
    explicit = config.feedback is Feedback.EXPLICIT
    if explicit != (config.split_kind == "ratings"):
        raise InputError(
            "explicit feedback is judged on held-out ratings (split.kind 'ratings'), "
            "implicit feedback on held-out users (split.kind 'users')"
        )
    if explicit and presence:
        raise InputError(
            f"{name} says who used what, not how they liked it: there are no ratings to predict. "
            "Say --feedback implicit (feedback in a configuration)"
        )


def _time_rule(config: SplitConfig) -> TimeRule:
    if config.leave_last is not None:
        return ByLast(count=config.leave_last, coins=SplitCoins(config.seed))
    assert config.test_from is not None
    test = public_time(config.test_from, "split.test_from")
    earlier = config.validation_from
    return ByDate(
        test_from=test,
        validation_from=test if earlier is None else public_time(earlier, "split.validation_from"),
    )


def _fold_of(config: SplitConfig) -> Fold | None:
    """Which ratings or users are tested, where a configuration names folds.

    Raises:
        InputError: a fold, and not of how many.
    """
    if config.folds is not None:
        return Fold(number=config.fold, of=config.folds)
    if config.fold != 0:
        raise InputError(
            f"split.fold = {config.fold} says which fold, but not of how many: set split.folds too."
        )
    return None
