"""What the nodes of a simulated fleet read: a job, board 0, and users in cohorts on disk.

Each node maps its own cohort and copies nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.client.participation.contributing import Scale
from fedboard.client.participation.promises import stated_protocol
from fedboard.client.participation.rounds import Asker, OpenGate
from fedboard.client.participation.steps import Client, MemoryVault, NoiseOf, secure_noise
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.question import Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import PinnedServer, QuestionKey
from fedboard.common.messages.step import StepMessage
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.properties import fits_any_fleet
from fedboard.common.protocols.registry import says
from fedboard.server.fleet.job import Job, protocol_of
from fedboard.server.run_spec import ProtocolChoice, RoundPace
from fedboard.simulations.data.stream import mapped_rows, write_rows
from fedboard.simulations.runs.trainer import Simulated, scales_by_key
from fedboard.simulations.sessions.clients import (
    as_simulated,
    client_noise,
    simulated_roster,
    with_simulated_authority,
)

_LARGEST = Question.MAX_BYTES
"""A simulation's own question, on its own machine: as large as any."""
_LARGEST_ANSWER = 1 << 40


def write_cohorts(folder: Path, users: Cohort, n_cohorts: int, scales: FloatArray | None = None) -> None:
    """Cut users into cohorts of about one size.

    Args:
        folder: exists. Whoever can read it can read all ratings.
        users: all of them. Private.
        n_cohorts: >= 1.
        scales: personal levels, float64, shape (n_users,), see ``fedboard.common.contribution_bounding.personal``.

    Raises:
        InputError: fewer users than cohorts.
    """
    if not 1 <= n_cohorts <= users.n_users:
        raise InputError(f"nodes must be in 1..{users.n_users} (the number of users), got {n_cohorts}")
    for number in range(n_cohorts):
        start, stop = (users.n_users * k // n_cohorts for k in (number, number + 1))
        place = _place(folder, number)
        write_rows(place, users.rows(start, stop))
        if scales is not None:
            np.save(place / "scales.npy", scales[start:stop])


def _place(folder: Path, number: int) -> Path:
    return folder / f"cohort-{number:06d}"


@dataclass(frozen=True, slots=True)
class StoredCohort(OpenGate):
    """One cohort as ``write_cohorts`` left it; a simulated user answers everything that they are asked."""

    place: Path
    asker: Asker
    """Whose questions it answers."""

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(np.load(self.place / "indptr.npy", mmap_mode="r").size - 1)

    def cohort(self, board: Board) -> Cohort:
        """Its rows, mapped."""
        return mapped_rows(self.place)

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """The users' personal levels, or all of everything."""
        scales = self.place / "scales.npy"
        return np.asarray(np.load(scales), dtype=np.float64) if scales.exists() else 1.0

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        """Whatever the simulation states."""
        stated = stated_protocol(step.protocol, step.parameters, backend=backend)
        return as_simulated(stated, int(self.place.name.rpartition("-")[2]))

    def failed(self, error: Exception) -> None:
        """Refuse: a simulation that fails should be seen to fail."""
        raise RefusedError(Refusal.INTERNAL) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortNodes:
    """The simulated nodes of one run, each of which answers the server of this run alone."""

    folder: Path
    asker: Asker
    kernels: str
    seed: int | None
    """Of the nodes' own noise, which is then what the engine draws for the same client; None: of the system."""

    @staticmethod
    def of(run_config: Mapping[str, object]) -> "CohortNodes":
        """From what ``FleetFiles.run_config`` says."""
        server = PinnedServer.from_hex(str(run_config["server"]))
        seeded, seed = run_config["noise"] == "seeded", int(str(run_config["seed"]))
        return CohortNodes(
            folder=Path(str(run_config["cohorts"])),
            asker=Asker(server=server, largest=_LARGEST, largest_answer=_LARGEST_ANSWER),
            kernels=str(run_config["kernels"]),
            seed=seed if seeded else None,
        )

    def client(self, number: int, vault: MemoryVault) -> Client:
        """What answers as the node of this number, from 0."""
        stored = StoredCohort(_place(self.folder, number), self.asker)
        return Client(
            source=stored, gate=stored, vault=vault, noise=self._noise_of(number), backend=self.kernels
        )

    def _noise_of(self, number: int) -> NoiseOf:
        seed = self.seed
        return secure_noise if seed is None else lambda step: client_noise(seed, step.round, number)


_PATIENCE_SECONDS = 86_400.0
"""Simulated nodes do not get lost: one that takes its time is neither asked again nor given up."""


class FleetFiles:
    """What a simulated fleet reads: the job, board 0, and a folder of cohorts."""

    def __init__(self, simulated: Simulated, folder: Path) -> None:
        """Write them.

        Args:
            simulated: what is trained.
            folder: exists; it holds all ratings, so it is for this run only.
        """
        config, problem, task = simulated.config, simulated.held, simulated.task
        self.n_nodes, self.cohorts, self.kernels = _n_nodes(simulated), folder / "cohorts", simulated.backend
        self.workers, self.simulated = config.run.workers, simulated
        by_key = scales_by_key(config.privacy, task, seed=config.seed)
        scales = None if by_key is None else by_key(problem.train.keys)
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

    @property
    def run_config(self) -> dict[str, Any]:
        """What nodes are told; plain values, so that it can be sent."""
        return {
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
