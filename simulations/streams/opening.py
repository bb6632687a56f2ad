"""From a configuration to a streamed problem: made-up people, shards, or ratings that are in memory anyway."""

from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import names_where, says
from fedboard.common.protocols.shared.properties import shows_rows
from fedboard.simulations.config import DataConfig, SimulationConfig
from fedboard.simulations.datasets import find_data
from fedboard.simulations.datasets.named import is_sharded
from fedboard.simulations.datasets.shards import open_shards
from fedboard.simulations.datasets.synthetic.people import is_people, open_people
from fedboard.simulations.problem import features_of, load_data, origin_of, require_data
from fedboard.simulations.streams.in_memory import InMemoryStream
from fedboard.simulations.streams.problem import StreamedProblem, streamed_problem
from fedboard.simulations.streams.stream import UserStream


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
            "false (--no-streamed) where its ratings fit into memory"
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
    return InMemoryStream(load_data(data))
