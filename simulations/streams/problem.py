"""The learning problem of a simulation over a stream: what ``Problem`` is where ratings do not fit into memory.

From a configuration to a streamed problem: made-up people, shards, or ratings that are in memory anyway.
"""

from dataclasses import dataclass

from fedboard.common.errors import InputError
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import names_where, says
from fedboard.server.catalogue.features import ItemFeatures
from fedboard.simulations.config import DataConfig, SimulationConfig
from fedboard.simulations.data import find_data
from fedboard.simulations.data.named import is_sharded
from fedboard.simulations.data.shards import open_shards
from fedboard.simulations.data.stream import HeldStream, UserStream
from fedboard.simulations.data.synthetic.people import is_people, open_people
from fedboard.simulations.problem import Described, described, features_of, load_data, origin_of, require_data
from fedboard.simulations.streams.splitting import Splitting, splitting_of


@dataclass(frozen=True, kw_only=True)
class StreamedProblem(Described):
    """A stream of users and how each is split. The stream is private, the splitting is public."""

    stream: UserStream
    splitting: Splitting
    judged_users: int | None = None
    """On how many users it is judged; None: on all."""

    @property
    def n_users(self) -> int:
        """Rows of the stream, with those of users who are held out or have no ratings."""
        return self.stream.n_users


def streamed_problem(
    stream: UserStream,
    config: SimulationConfig,
    *,
    catalogue_origin: str,
    features: ItemFeatures | None = None,
) -> StreamedProblem:
    """A stream with the split of a configuration.

    Args:
        stream: private.
        config: of the run.
        catalogue_origin: as for ``Problem``.
        features: public, of the items in the stream's order.

    Raises:
        InputError: the split does not fit the feedback or the stream.
    """
    return StreamedProblem(
        **described(stream, config, features, origin=catalogue_origin),
        stream=stream,
        splitting=splitting_of(config, stream),
        judged_users=config.run.judged_users,
    )


def is_streamed(config: SimulationConfig) -> bool:
    """Whether a run goes through its ratings in blocks: where it says so, or where the data are made for it."""
    return made_for_streams(config.data) if config.run.streamed is None else config.run.streamed


def made_for_streams(data: DataConfig) -> bool:
    """Whether data are read in blocks unless somebody says otherwise."""
    return is_people(data.source) or is_sharded(find_data(data.source))


def open_problem(config: SimulationConfig) -> StreamedProblem:
    """The stream that a configuration names, with its split.

    Raises:
        InputError: it cannot be read, its split does not go with a stream, or clients run where nothing streams.
    """
    run = config.run
    if run.runtime not in ("engine", "ray") or not says(run.protocol, shows_rows):
        raise InputError(
            f"{config.data.source} is read in blocks, which needs run.runtime 'engine' or 'ray' and run.protocol "
            f"'{names_where(shows_rows)}', got {run.runtime!r} and {run.protocol!r}: take these, or run.streamed = "
            "false where its ratings fit into memory"
        )
    stream = _stream(config.data)
    return streamed_problem(
        stream,
        config,
        catalogue_origin=origin_of(config.data, listed=stream.items_listed),
        features=features_of(config.data, stream.item_ids, stream.titles),
    )


def _stream(data: DataConfig) -> UserStream:
    if is_people(data.source):
        return open_people(data.source)
    if is_sharded(find_data(data.source)):
        require_data(data)
        return open_shards(find_data(data.source))
    return HeldStream.of_ratings(load_data(data))
