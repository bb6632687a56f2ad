"""What must not depend on who is in a data set when noise is secret: the split and the catalogue."""

import numpy as np

from fedboard.common.errors import PrivacyError
from fedboard.simulations.data.examples import ExampleProblem, fell_as_stated
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.splits import RatingSplit
from fedboard.simulations.data.splits.times import ByDate, ByLast, is_training_part
from fedboard.simulations.problem import Problem
from fedboard.simulations.streams.problem import StreamedProblem

_ADVICE = "split with fedboard.simulations.data.splits, or take privacy.noise 'seeded', which claims nothing"


def require_own_parts(problem: Problem | StreamedProblem | ExampleProblem) -> None:
    """Refuse a problem in which one user's presence may move what others give.

    The split has to say by which coins it was made, and every training rating has to be where its coin says; or by
    which times, and the training part has to be what follows from them. The list of items has to stand apart from
    the ratings.

    Guarantee: passes only where every user of ``problem.train`` keeps her training ratings whoever else is in the
    data set, as far as the training part shows it.
    Not guaranteed: that nothing was left out of the training part in another way before the split.

    Raises:
        PrivacyError: what is wrong, in public terms.
    """
    if isinstance(problem, ExampleProblem):
        if not fell_as_stated(problem):
            raise PrivacyError(f"the training part is not what the coins of its split say: {_ADVICE}")
        return
    if not problem.catalogue_listed:
        raise PrivacyError(
            "secure noise needs a list of items that stands apart from the ratings, and this one was read off "
            "them: name a file of items (data.titles) with data.catalogue 'listed'"
        )
    if isinstance(problem, StreamedProblem):  # each block is split by its users' own coins when it is read
        return
    rule, train = problem.split.rule, problem.train
    if rule is None or train.user_keys is None:
        raise PrivacyError(f"secure noise needs a split in which each user has coins of her own: {_ADVICE}")
    if isinstance(rule, ByDate | ByLast):
        rows = problem.split.rows
        kept = np.array(rows is not None and is_training_part(train, rule, rows))
    elif isinstance(problem.split, RatingSplit):
        items = id_keys(problem.catalogue.item_ids, Kind.ITEM)
        words = rule.coins.of_ratings(train.user_keys, items, train.user_of_entry(), train.items)
        kept = rule.parts(words)[0]
    else:
        kept = rule.parts(rule.coins.of_users(train.user_keys))[0] | (train.counts == 0)
    if not np.all(kept):
        decides = "times" if isinstance(rule, ByDate | ByLast) else "coins"
        raise PrivacyError(f"the training part is not what the {decides} of its split say: {_ADVICE}")
