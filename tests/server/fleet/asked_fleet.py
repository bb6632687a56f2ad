"""A fleet that is asked queries; its devices answer in this process, with their own files and gates."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.board import Board
from fedboard.common.messages.refusals import Refusal
from fedboard.common.queries.collection import Subject
from fedboard.common.queries.wording import Wording
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.queries import PutQuery, job_of_query, put_query
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.simulations.flower.training import LocalNodes
from tests.server.fleet.deployed import NODES, Fleet
from tests.server.fleet.local_fleet import answers_of_devices

MEAN = Wording(kind="mean")
NINE_IN_TEN = Wording(
    kind="quantile", subject=Subject.COUNTS, share=0.9, candidates=tuple(float(n) for n in range(4, 21))
)


@dataclass(frozen=True)
class Asked:
    """A fleet in a folder, whose devices answer in this process with their own files, gates and ledgers."""

    fleet: Fleet
    heard: list[Refusal] = field(default_factory=list)

    @property
    def settings(self) -> FleetSettings:
        return read_settings(self.fleet.folder / "fleet.toml")

    def device(self, name: str) -> Path:
        return self.fleet.folder / name / "device.toml"

    def run(
        self, put: PutQuery, *, nodes: tuple[str, ...] = NODES, seconds: float = 10.0, **changes: Any
    ) -> Board:
        """As its server would, but that nodes are simulated ones."""
        job = job_of_query(self.settings, put, put.task().statement)
        pace = msgspec.structs.replace(job.rounds, deadline_seconds=seconds, grace_seconds=0.2)
        here: dict[str, Any] = {"enrolled": None, "users": 160, "rounds": pace}
        job = msgspec.structs.replace(job, **{**here, **changes})
        places = [self.device(name) for name in nodes]
        return run_job(LocalNodes(answers_of_devices(places, self.heard), job.largest_cohort), job)

    def put(self, wording: Wording = MEAN, *, epsilon: float = 0.5) -> PutQuery:
        return put_query(self.settings, wording, epsilon=epsilon)

    def policy(self, before: str, after: str) -> None:
        """Change the words of every device's policy."""
        for name in NODES:
            text = self.device(name).read_text()
            assert before in text
            self.device(name).write_text(text.replace(before, after))


def asked_fleet(folder: Path) -> Asked:
    """One that is asked queries alone, for an epsilon of 2 in all, under ``trusted``."""
    found = Asked(Fleet(folder, privacy={"epsilon": None}, queries={"epsilon": 2.0}))
    prepare(found.settings)
    return found
