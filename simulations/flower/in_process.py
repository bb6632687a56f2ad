"""The rounds of a fleet in this process: nodes one after the other, without Flower, Ray or a network."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from fedboard.client.participation.steps import MemoryVault, respond_to
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.rounds.asking import Reply
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
        self._asked = deque[Callable[[], Reply]]()

    def present(self) -> Mapping[str, int]:
        """All of them."""
        return dict.fromkeys(self._answers, self._max_users)

    admitted = present

    def send(
        self, frames: Mapping[str, bytes], *, beside: bytes | None, kind: str, largest: int, seconds: float
    ) -> None:
        """Keep what each is asked."""

        def reply(node: str) -> Reply:
            content = self._answers[node](kind, frames[node], beside)
            return Reply(node, content) if len(content) <= largest else Reply(node, None, Refusal.TOO_LARGE)

        self._asked.extend(partial(reply, node) for node in frames)

    def replies(self, *, wait: float) -> list[Reply]:
        """Let the next one answer."""
        return [self._asked.popleft()()] if self._asked else []

    def end(self) -> None:
        """Nobody answers any more."""
        self._asked.clear()
