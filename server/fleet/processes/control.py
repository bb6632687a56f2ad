"""What the server asks of its own SuperLink: who is admitted, and how the training run fares."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.proto.federation_config_pb2 import SimulationConfig
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import Run
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab

_BUNDLE = {
    "pyproject.toml": b"""\
[project]
name = "fedboard"
version = "1.0.0"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedboard"

[tool.flwr.app.components]
serverapp = "fleet.server_app:app"
clientapp = "fleet.client_app:app"

[tool.flwr.app.config]
job = ""
""",
    "fleet/__init__.py": b"",
    "fleet/server_app.py": b"from fedboard.server.fleet import server_app\n\napp = server_app.app\n",
    "fleet/client_app.py": b"from fedboard.client.fleet import client_app\n\napp = client_app.app\n",
}
"""The app that Flower wants to be given: it only names what is installed on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """How a run fares, as the SuperLink records it."""

    run_id: int
    waiting: bool
    """Nobody has begun with it."""
    finished: bool
    completed: bool
    details: str
    """What the ServerApp ended with; empty where it did not fail."""

    @staticmethod
    def of(run: Run) -> "RunState":
        """From Flower's record."""
        status = run.status
        finished = status.status == Status.FINISHED
        completed = finished and status.sub_status == SubStatus.COMPLETED
        return RunState(
            run_id=run.run_id,
            waiting=status.status == Status.PENDING,
            finished=finished,
            completed=completed,
            details=status.details,
        )


class Control:
    """The Control API of the SuperLink on this machine."""

    def __init__(self, *, port: int, authority: Path | None) -> None:
        """Make ready.

        Args:
            port: of the SuperLink on 127.0.0.1.
            authority: PEM file of the authority that signed its certificate; None where it has none, as for
                simulations.
        """
        scheme = "http" if authority is None else "https"
        trusted = False if authority is None else ssl.create_default_context(cafile=str(authority))
        self._client = ControlHttpClient(f"{scheme}://127.0.0.1:{port}", verify=trusted, timeout=5.0)

    def __enter__(self) -> Self:
        """Use until the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._client.close()

    def ready(self) -> bool:
        """Whether the SuperLink answers."""
        try:
            self._client.ListRuns(ListRunsRequest(limit=1))
        except httpx.HTTPError:
            return False
        return True

    def admit(self, names: Mapping[str, str]) -> list[str]:
        """Register these nodes and no others.

        Args:
            names: public key, PEM text, to name.

        Returns:
            Names of those that the SuperLink does not take, see ``register``.
        """
        known = {node.public_key.decode(): node.node_id for node in self._nodes()}
        refused = self.register({key: name for key, name in names.items() if key not in known})
        for key, node_id in known.items():
            if key not in names:
                self._client.UnregisterNode(UnregisterNodeRequest(node_id=node_id))
        return refused

    def register(self, names: Mapping[str, str]) -> list[str]:
        """Register these nodes too.

        Args:
            names: public key, PEM text, to name.

        Returns:
            Names of those that the SuperLink does not take: it has struck them off, and takes no key twice.
        """
        refused = []
        for key, name in names.items():
            try:
                self._client.RegisterNode(RegisterNodeRequest(public_key=key.encode(), name=name))
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.PRECONDITION_FAILED:
                    raise
                refused.append(name)
        return refused

    def _nodes(self) -> list[NodeInfo]:
        return [
            node
            for node in self._client.ListNodes(ListNodesRequest()).nodes_info
            if node.status != "unregistered"
        ]

    def start_run(self, job: Path) -> int:
        """Hand in a run of the installed app; its id.

        Args:
            job: what the ServerApp is to do.
        """
        return self.hand_in(_BUNDLE, {"job": str(job)})

    def hand_in(
        self,
        bundle: Mapping[str, bytes],
        config: Mapping[str, str],
        simulation: SimulationConfig | None = None,
    ) -> int:
        """Hand in a run of an app; its id.

        Args:
            bundle: the app's files by path.
            config: of the run.
            simulation: how many nodes are simulated, and with what; None in a deployment.
        """
        content, _ = build_fab_from_files(dict(bundle))
        request = StartRunRequest(
            fab=fab_to_proto(Fab("", content, {})),
            override_config=user_config_to_proto(dict(config)),
            override_federation_config=simulation,
        )
        return self._client.StartRun(request).run_id

    def runs(self) -> list[RunState]:
        """All runs, the newest first."""
        found = self._client.ListRuns(ListRunsRequest()).run_dict.values()
        newest_first = sorted(found, key=lambda run: str(run.pending_at), reverse=True)
        return [RunState.of(run) for run in newest_first]

    def log(self, run_id: int) -> str:
        """What the processes of a run have printed so far."""
        answer = next(self._client.StreamLogs(StreamLogsRequest(run_id=run_id, after_timestamp=0.0)), None)
        return "" if answer is None else str(answer.log_output)

    def stop_run(self, run_id: int) -> None:
        """End a run."""
        self._client.StopRun(StopRunRequest(run_id=run_id))
