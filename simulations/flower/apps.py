"""The rounds of a simulation over Flower's own: the job over Flower's grid, and nodes that host cohorts of users.

All that this simulation needs of Flower is here, by public names.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any, Final

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedboard.client.participation.steps import MemoryVault, respond_to
from fedboard.common.errors import FedboardError
from fedboard.common.messages.flower_parts import frame_of, frames_of, record_of
from fedboard.common.messages.question import ROUND, STEP, refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.mailbox import Message as Asked
from fedboard.server.fleet.mailbox import Reply
from fedboard.server.fleet.running import run_job
from fedboard.simulations.flower.cohorts import CohortNodes, FleetFiles
from fedboard.simulations.ray.cluster import Cluster
from fedboard.simulations.runs.trainer import OnRound

_LOOK_SECONDS: Final = 0.05
"""Between two looks for replies: Flower tells nobody that one has come."""
_PULLED_AT_ONCE: Final = 64
_SESSION, _FIELD = "fedboard.session", "content"


def run_on_flower(files: FleetFiles, on_round: OnRound) -> None:
    """Run the job on Flower's simulation, which ends with the block or with this process.

    ``RAY_ADDRESS`` in the environment names a Ray cluster to use; without it Ray starts here, on loopback.

    Raises:
        FedboardError: as of any run, or Ray cannot be started or joined.
    """
    from flwr.simulation import run_simulation

    ended, app = Event(), ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_job(GridNodes(grid, files.job.largest_cohort, ended), files.job, on_round=on_round)

    with _quiet_flower(), Cluster(None, workers=files.workers):
        try:
            resources: Any = {"client_resources": {"num_cpus": 1}}
            run_simulation(app, client_app_of(files.run_config), files.n_nodes, backend_config=resources)
        except RuntimeError as error:  # what Flower makes of an error that is not the job's
            raise FedboardError(f"Flower's simulation failed ({error.__cause__ or error})") from error
        finally:
            ended.set()


@contextmanager
def _quiet_flower() -> Iterator[None]:
    """Its logger tells of each message, and that this way to start it is an old one."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def client_app_of(run_config: Mapping[str, Any]) -> ClientApp:
    """What the node of each cohort is.

    Args:
        run_config: as ``FleetFiles`` gives it.
    """
    app = ClientApp()

    def answered(kind: str, message: Message, context: Context) -> Message:
        found = frames_of(message.content)
        if found is None:
            return Message(record_of(refusal(Refusal.MALFORMED)), reply_to=message)
        number = int(context.node_config["partition-id"])
        client = CohortNodes.of(run_config).client(number, _ContextVault(context))
        return Message(record_of(respond_to(kind, *found, client)), reply_to=message)

    for kind in (ROUND, STEP):
        app.query(kind.partition(".")[2])(partial(answered, kind))
    return app


@dataclass(frozen=True, slots=True, repr=False)
class _ContextVault(MemoryVault):
    """A session between two steps, in the state that Flower keeps for a node: actors take turns with the nodes, and
    Flower hands the state from one to the next.
    """

    context: Context

    def load(self) -> bytes | None:
        record = self.context.state.get(_SESSION)
        content = record.get(_FIELD) if isinstance(record, ConfigRecord) else None
        return content if isinstance(content, bytes) else None

    def save(self, content: bytes) -> None:
        self.context.state[_SESSION] = ConfigRecord({_FIELD: content})


@dataclass(slots=True)
class GridNodes:
    """The nodes of a grid of Flower's, as it numbers them. All are simulated, so all that are listed are there."""

    grid: Grid
    max_users: int
    """That each may host."""
    ended: Event = field(default_factory=Event)
    """Set once nobody will answer any more."""
    _largest: int = 0
    _waiting: dict[str, int] = field(default_factory=dict)
    """Message id -> node."""

    def present(self) -> Mapping[str, int]:
        """All that Flower lists at the moment: at first some are missing."""
        return {_name(number): self.max_users for number in self.grid.get_node_ids()}

    admitted = present

    def ask(self, messages: Mapping[str, Asked], *, largest: int, seconds: float) -> None:
        """Push a message to each."""
        self._largest = largest
        records = {one: record_of(one.frame, one.beside or None) for one in set(messages.values())}
        pushed = [Message(records[one], int(name), one.kind, ttl=seconds) for name, one in messages.items()]
        ids = self.grid.push_messages(pushed)
        self._waiting |= {one: int(name) for one, name in zip(ids, messages, strict=True) if one}

    def replies(self, *, wait: float) -> list[Reply]:
        """What can be pulled; it is looked again and again."""
        until = time.monotonic() + wait
        while not (found := self._pulled()) and (left := until - time.monotonic()) > 0:
            if self.ended.is_set():
                raise FedboardError(
                    "Flower's simulation was ended in the middle of a round; go on with --resume"
                )
            time.sleep(min(left, _LOOK_SECONDS))
        return found

    def end(self) -> None:
        """What was asked is not looked for any more."""
        self._waiting.clear()

    def _pulled(self) -> list[Reply]:
        ids, found = list(self._waiting), list[Reply]()
        for start in range(0, len(ids), _PULLED_AT_ONCE):
            for message in self.grid.pull_messages(ids[start : start + _PULLED_AT_ONCE]):
                node = self._waiting.pop(message.metadata.reply_to_message_id, None)
                if node is not None:
                    found.append(self._reply(node, message))
        return found

    def _reply(self, node: int, message: Message) -> Reply:
        name = _name(node)
        if message.has_error():  # its text comes from the other side and goes nowhere
            return Reply(name, None, Refusal.UNREACHABLE)
        if message.metadata.src_node_id != node:
            return Reply(name, None, Refusal.UNKNOWN_NODE)
        content = frame_of(message.content)
        if content is None:
            return Reply(name, None, Refusal.MALFORMED)
        return Reply(name, content) if len(content) <= self._largest else Reply(name, None, Refusal.TOO_LARGE)


def _name(number: int) -> str:
    return f"{number:020d}"
