"""Which nodes are there, of those that may be."""

import time
from dataclasses import dataclass
from typing import NamedTuple

from flwr.serverapp import Grid

from fedboard.server.fleet.plan.job import Job


class Node(NamedTuple):
    """One node of a fleet."""

    name: str
    """Its authenticated identity: its public key, or a simulated node's number."""
    max_users: int
    """Most users that it may host."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The nodes of a grid that a job admits."""

    grid: Grid
    job: Job

    def present(self) -> dict[int, Node]:
        """The nodes that are there, by Flower's number. Nodes that were not admitted are not asked."""
        admitted = self.job.nodes
        if admitted is None:
            return {node: Node(f"{node:020d}", self.job.largest_cohort) for node in self.grid.get_node_ids()}
        keys = {node.node_id: node.public_key.decode(errors="replace") for node in self.grid.get_nodes()}
        return {node: Node(key, admitted[key]) for node, key in keys.items() if key in admitted}

    def when_enough(self) -> dict[int, Node]:
        """The nodes, once the expected number is there, or the quorum and nobody more for a while: nodes still
        register when a run starts, and some come late.
        """
        began = time.monotonic()
        while len(nodes := self.present()) < self.job.expected_nodes:
            waited = time.monotonic() - began
            enough = len(nodes) >= self.job.quorum and waited >= self.job.grace_seconds
            if enough or waited >= self.job.deadline_seconds:
                break
            time.sleep(self.job.poll_seconds)
        return nodes


__all__ = ["Node", "Roster"]
