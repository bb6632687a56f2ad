"""A grid in this process: the same apps with neither Ray nor network, for tests, notebooks and small studies.

Flower's ``Grid`` is public and both apps are plain callables, so this is small. What it needs of Flower's inside
(message ids and the identity of the running task) is in this file alone.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

_RUN_ID = 1


class LocalGrid(Grid):
    """Nodes 1, 2, ... of one app. A message is handled when it is pushed; its reply waits to be pulled."""

    def __init__(self, app: ClientApp, n_nodes: int, run_config: dict[str, Any]) -> None:
        """Make the nodes; node k + 1 has the partition number k."""
        self._app = app
        self._contexts = {
            number + 1: Context(
                run_id=_RUN_ID,
                node_id=number + 1,
                node_config={"partition-id": number, "num-partitions": n_nodes},
                state=RecordDict(),
                run_config=run_config,
            )
            for number in range(n_nodes)
        }
        self._replies: dict[str, Message] = {}
        self._n_messages = 0

    @contextmanager
    def running(self) -> Iterator["LocalGrid"]:
        """Messages can be made only inside: Flower asks the process for the run that they belong to."""
        before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = _RUN_ID, 0, 1
        try:
            yield self
        finally:
            TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before

    def set_run(self, run: Run) -> None:
        """There is one run only."""

    @property
    def run(self) -> Run:
        """The run."""
        return Run.create_empty(_RUN_ID)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """All nodes."""
        return list(self._contexts)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """All nodes; they have no keys."""
        return [NodeInfo(node_id=node) for node in self._contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Have each message handled, one after the other."""
        ids = []
        for message in messages:
            self._n_messages += 1
            message.metadata.__dict__["_message_id"] = name = f"message-{self._n_messages}"
            self._replies[name] = self._handled(message)
            ids.append(name)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there; each is given once."""
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push, then pull."""
        return self.pull_messages(self.push_messages(messages))

    def _handled(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        try:
            return self._app(message, self._contexts[node])
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
