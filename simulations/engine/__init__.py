"""The engine: users in blocks, in worker processes or on a cluster, the same board for any number of either."""

from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.engine.runtime import Engine, StreamLayout

__all__ = ["Engine", "StreamLayout", "WorkerPool"]
