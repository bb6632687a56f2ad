"""The learning problem of a simulation: ratings, split, catalogue, and what is public about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.algorithms.shared.ratings_config import checked_options
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import names_where, says
from fedboard.server.catalogue.features import (
    NONE,
    TITLES,
    ItemFeatures,
    features_of_file,
    features_of_titles,
    load_item_features,
)
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import (
    ColumnMapping,
    Kind,
    Ratings,
    SyntheticConfig,
    features_beside,
    find_data,
    id_keys,
    load_ratings,
    look_at,
    synthetic_ratings,
)
from fedboard.simulations.data.loading import NO_TIMES
from fedboard.simulations.data.named import is_sharded
from fedboard.simulations.data.shards import open_shards
from fedboard.simulations.data.splits import RatingSplit, Splitting, UserSplit
from fedboard.simulations.data.splits.tables import SplitTables, split_tables
from fedboard.simulations.data.stream import HeldStream, UserStream
from fedboard.simulations.data.synthetic.people import is_people, open_people
from fedboard.simulations.sections import DataConfig
from fedboard.simulations.splitting import splitting_of


@dataclass(frozen=True, kw_only=True)
class Described:
    """What is publicly known about a problem, wherever its ratings are. The names of metrics are its owner's."""

    name: str
    """Of the data."""
    catalogue: Catalogue
    rating_range: tuple[float, float]
    catalogue_origin: str
    """Where the list of items comes from, for the certificate."""
    catalogue_listed: bool = False
    """Whether that list stands apart from the ratings; secret noise needs it."""
    item_features: ItemFeatures | None = None
    """What is publicly known about the items, in the order of the catalogue."""
    own_metrics: tuple[str, ...] = ()
    """By which it is judged beside those that are installed, each as ``path/to/file.py:NAME``."""

    @property
    def feature_values(self) -> FloatArray | None:
        """Public features of the items, float64, shape (n_items, n_features), for the task."""
        return None if self.item_features is None else self.item_features.values

    @property
    def statement(self) -> str:
        """What a certificate says about the data: public facts only."""
        low, high = self.rating_range
        items = f"{self.catalogue.n_items} items ({self.catalogue_origin})"
        told = f"{self.name}: {items}, ratings from {low:g} to {high:g}"
        known = self.item_features
        if known is None:
            return told
        return (
            f"{told}; {len(known.names)} public item features ({known.source}, which describes "
            f"{known.n_described} of the items), for algorithms that use them"
        )


@dataclass(frozen=True, kw_only=True)
class Problem(Described):
    """Training rows and what is held out. The rows are private."""

    train: Cohort
    split: RatingSplit | UserSplit
    user_ids: NDArray[Any] | None = None
    """Shape (n_users,): whose each row is, as the file has it; None: not at hand. Private."""

    @property
    def tables(self) -> SplitTables:
        """What is learnt from and judged on, by the ids of the file, for models of other packages. Private.

        Raises:
            InputError: whose rows these are is not at hand.
        """
        if self.user_ids is None:
            raise InputError(f"{self.name}: the ids of its users are not at hand; load it by its path")
        return split_tables(self.split, self.user_ids, self.catalogue.item_ids)

    @cached_property
    def item_counts(self) -> IntArray:
        """Exact training ratings per item, int64, shape (n_items,), counted once. Not private: for judging only."""
        counts = self.train.item_counts()
        counts.setflags(write=False)
        return counts


def _described(
    data: Ratings | UserStream, config: SimulationConfig, features: ItemFeatures | None
) -> dict[str, Any]:
    """The fields of ``Described``, of data of which only what is public is looked at."""
    return {
        "name": data.name,
        "catalogue": Catalogue(
            item_ids=tuple(str(i) for i in data.item_ids),
            titles=data.titles,
            features=None if features is None else features.table,
        ),
        "rating_range": data.rating_range,
        "catalogue_origin": _origin_of(config.data, listed=data.items_listed),
        "catalogue_listed": data.items_listed,
        "item_features": features,
        "own_metrics": config.run.metrics,
    }


def load_problem(config: SimulationConfig) -> Problem:
    """Load and split.

    Raises:
        InputError: the data cannot be read, or the split does not fit the feedback.
    """
    ratings = load_data(config.data, times=config.split.by_time)
    return problem_of(ratings, config, brought=_brought_features(config.data, ratings.item_ids))


def problem_of(ratings: Ratings, config: SimulationConfig, *, brought: ItemFeatures | None = None) -> Problem:
    """Split ratings that are loaded already, whatever ``config.data`` says of where they come from.

    Args:
        ratings: private.
        config: of the run.
        brought: public features that the data set brings of its own, used where the configuration names none.

    Raises:
        InputError: the split does not fit the feedback.
    """
    splitting = splitting_of(config, ratings)
    if config.run.judged_users is not None:
        raise InputError(
            "run.judged_users is of streamed runs; ratings that are in memory are judged on everybody: leave it out"
        )
    times = ratings.times if config.split.by_time else None
    split = splitting.split(ratings.cohort(), id_keys(ratings.item_ids.tolist(), Kind.ITEM), times)
    if ratings.test is not None and isinstance(split, RatingSplit):
        split = replace(split, test=ratings.test)
    # A private run must not say so: it goes on, and gives what nobody gives.
    if config.privacy.noise == "seeded":
        indptr = split.train.indptr
        positive = f"of users with enough ratings above {config.split.positive_above:g}, "
        part = positive * (config.split_kind == "users")
        learnt_from = int((indptr[1:] > indptr[:-1]).sum())
        require_learnable(users=learnt_from, ratings=split.train.n_ratings, part=part)
    features = _item_features(config.data, ratings.item_ids, ratings.titles) or brought
    return Problem(
        **_described(ratings, config, features), train=split.train, split=split, user_ids=ratings.user_ids
    )


@dataclass(frozen=True, kw_only=True)
class StreamedProblem(Described):
    """A stream of users and how each is split, where ratings do not fit into memory. The stream is private, the
    splitting is public.
    """

    stream: UserStream
    splitting: Splitting
    judged_users: int | None = None
    """On how many users it is judged; None: on all."""

    @property
    def n_users(self) -> int:
        """Rows of the stream, with those of users who are held out or have no ratings."""
        return self.stream.n_users


def streamed_problem(
    stream: UserStream, config: SimulationConfig, *, features: ItemFeatures | None = None
) -> StreamedProblem:
    """A stream with the split of a configuration.

    Args:
        stream: private.
        config: of the run.
        features: public, of the items in the stream's order.

    Raises:
        InputError: the split does not fit the feedback or the stream.
    """
    return StreamedProblem(
        **_described(stream, config, features),
        stream=stream,
        splitting=splitting_of(config, stream),
        judged_users=config.run.judged_users,
    )


def is_streamed(config: SimulationConfig) -> bool:
    """Whether a run goes through its ratings in blocks: where it says so, or where the data are made for it."""
    if config.run.streamed is not None:
        return config.run.streamed
    return is_people(config.data.source) or is_sharded(find_data(config.data.source))


def open_problem(config: SimulationConfig) -> StreamedProblem:
    """The stream that a configuration names, with its split.

    Raises:
        InputError: it cannot be read, its split does not go with a stream, or clients run where nothing streams.
    """
    run, data = config.run, config.data
    if run.runtime not in ("engine", "ray") or not says(run.protocol, shows_rows):
        raise InputError(
            f"{data.source} is read in blocks, which needs run.runtime 'engine' or 'ray' and run.protocol "
            f"'{names_where(shows_rows)}', got {run.runtime!r} and {run.protocol!r}: take these, or run.streamed = "
            "false where its ratings fit into memory"
        )
    stream: UserStream
    if is_people(data.source):
        stream = open_people(data.source)
    elif is_sharded(find_data(data.source)):
        require_data(data)
        stream = open_shards(find_data(data.source))
    else:
        stream = HeldStream.of_ratings(load_data(data))
    features = _item_features(data, stream.item_ids, stream.titles)
    return streamed_problem(stream, config, features=features or _brought_features(data, stream.item_ids))


def require_learnable(*, users: int, ratings: int, part: str = "") -> None:
    """Refuse to spend a budget on nobody's ratings, or on one user's. For seeded noise: the refusal tells of them.

    Args:
        users: with training ratings. Private.
        ratings: of theirs. Private.
        part: whose ratings count, for the message.

    Raises:
        InputError: there is nothing to learn.
    """
    if users == 1:
        raise InputError(
            "one user alone has ratings to learn from: a board of her would be her ratings and noise, and the "
            "budget would be spent on it. Give the ratings of many users; nothing was spent"
        )
    if ratings == 0:
        raise InputError(
            f"the split leaves no rating {part}to learn from: give more ratings, or smaller shares to hold out."
        )


def _item_features(
    config: DataConfig, item_ids: NDArray[np.str_], titles: Sequence[str] | None
) -> ItemFeatures | None:
    if config.features in (None, NONE):
        return None
    if config.features == TITLES:
        return features_of_titles(titles)
    return load_item_features(find_data(config.features), item_ids.tolist())


def _brought_features(config: DataConfig, item_ids: NDArray[np.str_]) -> ItemFeatures | None:
    """Those of the file of titles that MovieLens brings, unless the configuration says otherwise."""
    if config.features is not None or config.made_up or config.columns is not None:
        return None
    try:
        beside = features_beside(find_data(config.source), config.format)
        return None if beside is None else features_of_file(beside, item_ids.tolist())
    except InputError:  # titles alone, say: nobody asked for features, so their lack is no fault
        return None


def _origin_of(config: DataConfig, *, listed: bool) -> str:
    """Where the list of items comes from, for the certificate."""
    if not listed:
        return "read off the ratings: which items are listed is not covered by the guarantee"
    if not config.made_up and config.catalogue == "listed":
        return "all that the titles file lists"
    return "declared public"


def load_data(config: DataConfig, *, times: bool = False) -> Ratings:
    """Read the ratings that a configuration names.

    Args:
        config: the section ``data``.
        times: whether to read when they were given.

    Raises:
        InputError: they cannot be read as they are.
    """
    if config.source == "synthetic":
        if times:
            raise InputError(NO_TIMES)
        return synthetic_ratings(checked_options(config.synthetic, SyntheticConfig, "data.synthetic"))
    return load_ratings(find_data(config.source), times=times, **_options_of(config))


def require_data(config: DataConfig, *, times: bool = False) -> None:
    """See that the ratings which a configuration names can be read, before many runs each find that they cannot.

    Raises:
        InputError: they are not there, or not as the configuration says.
    """
    if not config.made_up:
        look_at(find_data(config.source), times=times, **_options_of(config))


def says_presence_alone(config: DataConfig) -> bool:
    """Whether the ratings which a configuration names say only who used what, by their format; public.

    Raises:
        InputError: as of ``require_data``.
    """
    if config.made_up:
        return False
    return look_at(find_data(config.source), **_options_of(config)).found.reader.presence


def _options_of(config: DataConfig) -> dict[str, Any]:
    columns = config.columns
    return {
        "format": config.format,
        "columns": None if columns is None else checked_options(columns, ColumnMapping, "data.columns"),
        "rating_range": config.rating_range,
        "titles": config.titles,
        "catalogue": "listed" if config.catalogue == "listed" else "rated",
    }
