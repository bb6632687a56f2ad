"""The rounds of a fleet in this process: nodes one after the other, without Flower, Ray or a network."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fedboard.client.participation.steps import MemoryVault, respond_to
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.rounds.nodes import Exchange, Reply
from fedboard.server.fleet.running import run_job
from fedboard.simulations.flower.cohorts import CohortNodes
from fedboard.simulations.flower.files import FleetFiles
from fedboard.simulations.runs.trainer import OnRound

Answer = Callable[[str, bytes, bytes | None], bytes]
"""(kind, message, board beside it) -> what the node sends."""


def run_in_process(files: FleetFiles, on_round: OnRound) -> None:
    """Run the job over nodes in this process."""
    nodes = local_nodes(CohortNodes.of(files.run_config), files.n_nodes, files.job.largest_cohort)
    run_job(nodes, files.job, on_round=on_round)


def local_nodes(cohorts: CohortNodes, n_nodes: int, max_users: int) -> "LocalNodes":
    """One node of this process for each cohort.

    Args:
        cohorts: on disk.
        n_nodes: how many there are.
        max_users: that each may host.
    """
    return LocalNodes([_answering(cohorts, number) for number in range(n_nodes)], max_users)


def _answering(cohorts: CohortNodes, number: int) -> Answer:
    vault: Final = MemoryVault()
    return lambda kind, frame, board: respond_to(kind, frame, board, cohorts.client(number, vault))


class LocalNodes:
    """Nodes of this process. One answers when its reply is looked for, so that one reply is in memory at a time."""

    def __init__(self, answers: list[Answer], max_users: int) -> None:
        """Make them.

        Args:
            answers: of each node.
            max_users: that each may host.
        """
        self._answers = {f"{number:020d}": answer for number, answer in enumerate(answers)}
        self._max_users = max_users

    def present(self) -> Mapping[str, int]:
        """All of them."""
        return dict.fromkeys(self._answers, self._max_users)

    admitted = present

    def exchange(self, *, largest: int) -> Exchange:
        """For one question or one step."""
        return _LocalExchange(self._answers, largest)

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class _LocalExchange:
    answers: Mapping[str, Answer]
    largest: int
    asked: deque[Callable[[], Reply]] = field(default_factory=deque)

    def send(self, frames: Mapping[str, bytes], *, beside: bytes | None, kind: str, seconds: float) -> None:
        def reply(node: str) -> Callable[[], Reply]:
            return lambda: self._reply(node, self.answers[node](kind, frames[node], beside))

        self.asked.extend(map(reply, frames))

    def replies(self, *, wait: float) -> list[Reply]:
        return [self.asked.popleft()()] if self.asked else []

    def close(self) -> None:
        self.asked.clear()

    def _reply(self, node: str, content: bytes) -> Reply:
        return Reply(node, content) if len(content) <= self.largest else Reply(node, None, Refusal.TOO_LARGE)
