"""The learning problem of a simulation on examples: data, split, and what is public about them.

As with ratings a split is part of the mechanism: an example falls by a coin of its user's id and of its number
among her own, and by nothing else in the data set (``fedboard.simulations.data.splits.coins``).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedboard.client.ratings.examples_file import ExamplesTable, read_examples
from fedboard.common.algorithms.shared.ratings_config import checked_options
from fedboard.common.algorithms.supervised.examples import cohort_of
from fedboard.common.arrays import BitArray
from fedboard.common.board import Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.splits import SplitRule
from fedboard.simulations.data.splits.coins import SplitCoins
from fedboard.simulations.data.splits.splitting import DEFAULT_SHARE
from fedboard.simulations.data.synthetic.examples import SharedLinear

_SEED = "seed"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExampleSplit:
    """Examples to learn from and to be judged on; all cohorts have one row per user. Private."""

    train: Cohort
    """What the board is learnt from."""
    train_and_validation: Cohort
    """What users' own models are solved on for the test."""
    validation: Cohort
    """For choosing hyper-parameters; may be empty."""
    test: Cohort
    """For the reported result."""
    rule: SplitRule
    """The coins by which they fell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleProblem:
    """Training rows and what is held out. The rows are private, the names of the features are public."""

    name: str
    catalogue: Catalogue
    """Names of the features."""
    train: Cohort
    split: ExampleSplit
    catalogue_listed: ClassVar[bool] = True
    """Which features there are is said by the header, which is there whoever has examples."""
    feature_values: ClassVar[None] = None
    """There are no items that could have any."""

    @property
    def statement(self) -> str:
        """What a certificate says about the data: public facts only."""
        return (
            f"{self.name}: examples with {self.catalogue.n_items} features and a label; what is said of ratings "
            "holds for examples, and the catalogue lists the features"
        )


def load_examples(source: str, made_up: dict[str, Any]) -> tuple[str, ExamplesTable]:
    """Name and examples of a data set.

    Args:
        source: a CSV file with a column ``user``, or ``synthetic``.
        made_up: settings of the generator, see ``SharedLinear``, and its ``seed``.

    Raises:
        InputError: they cannot be read as they are.
    """
    if source == "synthetic":
        return "synthetic examples", _made_up(dict(made_up))
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path}: it is a folder; examples are read from one CSV file")
    table = read_examples(path)
    if table.users is None:
        raise InputError(
            f"{path}: it is one person's file; a simulation needs a column 'user' that says whose"
        )
    return path.stem, table


def _made_up(settings: dict[str, Any]) -> ExamplesTable:
    seed = settings.pop(_SEED, 0)
    if not isinstance(seed, int) or seed < 0:
        raise InputError(f"data.synthetic.seed must be a whole number >= 0, got {seed!r}")
    usual = {"users": 2000, "dimension": 20}
    source = checked_options(settings, SharedLinear, "data.synthetic", defaults=usual)
    return ExamplesTable(
        features=source.catalogue.item_ids,
        users=tuple(str(number) for number in range(source.users)),
        examples=source.sample(seed).examples,
    )


def split_examples(
    table: ExamplesTable, name: str, *, seed: int, validation: float | None, test: float | None
) -> ExampleProblem:
    """Hold examples out, each by a coin of its own.

    Args:
        table: private.
        name: of the data. Public.
        seed: of the coins. Public.
        validation: share that is expected; None for a tenth. Public.
        test: likewise. Public.

    Raises:
        InputError: the shares leave nothing to learn from.
    """
    rule = SplitRule(
        coins=SplitCoins(seed),
        validation=DEFAULT_SHARE if validation is None else validation,
        test=DEFAULT_SHARE if test is None else test,
    )
    keys = id_keys(table.users or ("",), Kind.USER)
    whole = cohort_of(table.examples, user_keys=keys)
    for_training, for_validation, for_test = rule.parts(coins_of_examples(rule, whole, keys))
    split = ExampleSplit(
        train=whole.where(for_training),
        train_and_validation=whole.where(for_training | for_validation),
        validation=whole.where(for_validation),
        test=whole.where(for_test),
        rule=rule,
    )
    if split.train.n_ratings == 0:
        raise InputError(
            "the split leaves no example to learn from: give more, or smaller shares to hold out."
        )
    return ExampleProblem(
        name=name, catalogue=Catalogue(item_ids=table.features), train=split.train, split=split
    )


def coins_of_examples(rule: SplitRule, cohort: Cohort, user_keys: BitArray) -> BitArray:
    """A word for each example, by its user's key and its number among hers; uint64, shape (n_examples,)."""
    numbers = id_keys(range(int(cohort.items.max(initial=0)) + 1), Kind.ITEM)
    return rule.coins.of_ratings(user_keys, numbers, cohort.user_of_entry(), cohort.items)


def fell_as_stated(problem: ExampleProblem) -> bool:
    """Whether every training example is where its coin says."""
    train, rule = problem.train, problem.split.rule
    if train.user_keys is None:
        return False
    return bool(np.all(rule.parts(coins_of_examples(rule, train, train.user_keys))[0]))
