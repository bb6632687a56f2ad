"""The engine: thousands of clients in worker processes over shared memory, the same board for any number."""

from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.engine.runtime import Engine
from fedboard.simulations.engine.streamed import StreamedEngine, StreamLayout

__all__ = ["Engine", "StreamLayout", "StreamedEngine", "WorkerPool"]
