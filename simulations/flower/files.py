"""What the apps of a simulated fleet read: a job, board 0, and cohorts of users as nodes."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.common.messages.signing import QuestionKey
from fedboard.common.protocols.properties import fits_any_fleet
from fedboard.common.protocols.registry import says
from fedboard.server.fleet.job import Job, protocol_of
from fedboard.server.run_spec import ProtocolChoice, RoundPace
from fedboard.simulations.flower.cohorts import write_cohorts
from fedboard.simulations.runs.participants import personal_scales
from fedboard.simulations.runs.trainer import Simulated
from fedboard.simulations.sessions.clients import simulated_roster, with_simulated_authority

_PATIENCE_SECONDS = 86_400.0
"""Simulated nodes do not get lost: one that takes its time is neither asked again nor given up."""


class FleetFiles:
    """What the apps of a simulated fleet read: the job, board 0, and a folder of cohorts."""

    def __init__(self, simulated: Simulated, folder: Path) -> None:
        """Write them.

        Args:
            simulated: what is trained.
            folder: exists; it holds all ratings, so it is for this run only.
        """
        config, problem, task = simulated.config, simulated.held, simulated.task
        self.n_nodes, self.cohorts, self.kernels = _n_nodes(simulated), folder / "cohorts", simulated.backend
        self.workers, self.job_path, self.simulated = config.run.workers, folder / "job.json", simulated
        scales = personal_scales(config.privacy, task, user_keys=problem.train.keys, seed=config.seed)
        write_cohorts(self.cohorts, problem.train, self.n_nodes, scales)
        first = folder / "first.board"
        task.first_board(problem.catalogue).save(first)
        features = None
        if problem.feature_values is not None:
            features = folder / "features.npy"
            np.save(features, problem.feature_values)
        key = QuestionKey()  # of this run alone
        private, _ = key.write(folder)
        self.server = key.public.hex
        self.job = _job(simulated, first, features, private)
        protocol_of(self.job)  # so that settings which cannot be are found before anything runs
        self.job.save(self.job_path)

    @property
    def run_config(self) -> dict[str, Any]:
        """What the apps find as their run's configuration."""
        return {
            "job": str(self.job_path),
            "cohorts": str(self.cohorts),
            "kernels": self.kernels,
            "noise": self.job.privacy.noise,
            "seed": self.job.privacy.seed,
            "server": self.server,
        }


def _n_nodes(simulated: Simulated) -> int:
    """Under a protocol whose clients matter there is a node for each, where their number is given."""
    run = simulated.config.run
    return run.nodes if says(run.protocol, fits_any_fleet) or run.clients is None else run.clients


def _protocol(choice: ProtocolChoice, n_nodes: int, place: Path) -> ProtocolChoice:
    """With a list of the simulated nodes, where they are to be vouched for."""
    settings = with_simulated_authority(choice.settings)
    if not settings.get("vouched_by"):
        return choice
    place.write_bytes(simulated_roster(n_nodes).content)
    return msgspec.structs.replace(choice, settings=settings, roster=place)


def _job(simulated: Simulated, first: Path, features: Path | None, key: Path) -> Job:
    config, n_nodes = simulated.config, _n_nodes(simulated)
    return Job(
        folder=str(simulated.run.path),
        first_board=str(first),
        question_key=str(key),
        privacy=config.promise,
        protocol=_protocol(config.protocol, n_nodes, first.with_name("roster")),
        rounds=RoundPace(
            expected_nodes=n_nodes,
            quorum=n_nodes,
            deadline_seconds=_PATIENCE_SECONDS,
        ),
        dataset=simulated.problem.statement,
        assumptions=tuple(simulated.assumptions),
        users=simulated.held.train.n_users,
        backend=simulated.backend,
        features=None if features is None else str(features),
    )
