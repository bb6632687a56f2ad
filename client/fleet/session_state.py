"""A session between two steps, in the state that Flower keeps for a node: in memory, for the time of a run."""

from dataclasses import dataclass

from flwr.app import ConfigRecord, Context

_RECORD, _FIELD = "fedboard.session", "content"


@dataclass(frozen=True, slots=True, repr=False)
class ContextVault:
    """On a device this is the memory of its one process. In a simulation, whose actors take turns with the nodes,
    Flower hands the state from one to the next.
    """

    context: Context

    def load(self) -> bytes | None:
        """What was saved last; None for nothing."""
        record = self.context.state.get(_RECORD)
        content = record.get(_FIELD) if isinstance(record, ConfigRecord) else None
        return content if isinstance(content, bytes) else None

    def save(self, content: bytes) -> None:
        """Put it in the place of what was there."""
        self.context.state[_RECORD] = ConfigRecord({_FIELD: content})
