"""The users of a simulation, cut into cohorts on disk: each node maps its own and copies nothing."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedboard.client.answering.asker import Asker
from fedboard.client.answering.open_gate import OpenGate
from fedboard.client.answering.rounds import RatingSource, Scale
from fedboard.client.answering.steps import SessionGate
from fedboard.client.device.protocol_policy import stated_protocol
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.rounds.question import Question
from fedboard.common.rounds.step import StepMessage
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.simulations.sessions.clients import as_simulated


def write_cohorts(folder: Path, users: Cohort, n_cohorts: int, scales: FloatArray | None = None) -> None:
    """Cut users into cohorts of about one size.

    Args:
        folder: exists. Whoever can read it can read all ratings.
        users: all of them. Private.
        n_cohorts: >= 1.
        scales: personal levels, float64, shape (n_users,), see ``fedboard.common.per_user.personal``.

    Raises:
        InputError: fewer users than cohorts.
    """
    if not 1 <= n_cohorts <= users.n_users:
        raise InputError(f"nodes must be in 1..{users.n_users} (the number of users), got {n_cohorts}")
    for number in range(n_cohorts):
        start, stop = (users.n_users * k // n_cohorts for k in (number, number + 1))
        rows, place = users.rows(start, stop), _place(folder, number)
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / "indptr.npy", rows.indptr)
        np.save(place / "items.npy", rows.items)
        np.save(place / "ratings.npy", rows.ratings)
        np.save(place / "user_keys.npy", rows.keys)
        np.save(place / "numbers.npy", np.array([rows.n_items, rows.first_row], dtype=np.int64))
        if rows.features is not None:
            np.save(place / "features.npy", rows.features)
        if scales is not None:
            np.save(place / "scales.npy", scales[start:stop])


def _place(folder: Path, number: int) -> Path:
    return folder / f"cohort-{number:06d}"


@dataclass(frozen=True, slots=True)
class StoredCohort(OpenGate):
    """One cohort as ``write_cohorts`` left it; a simulated user answers everything that she is asked."""

    place: Path
    asker: Asker
    """Whose questions it answers."""

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(np.load(self.place / "indptr.npy", mmap_mode="r").size - 1)

    def cohort(self, board: Board) -> Cohort:
        """Its rows; ratings are mapped."""
        n_items, first_row = (int(number) for number in np.load(self.place / "numbers.npy"))
        features = self.place / "features.npy"
        return Cohort(
            indptr=np.load(self.place / "indptr.npy"),
            items=np.load(self.place / "items.npy", mmap_mode="r"),
            ratings=np.load(self.place / "ratings.npy", mmap_mode="r"),
            n_items=n_items,
            first_row=first_row,
            user_keys=np.load(self.place / "user_keys.npy"),
            features=np.load(features, mmap_mode="r") if features.exists() else None,
        )

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """The users' personal levels, or all of everything."""
        scales = self.place / "scales.npy"
        return np.asarray(np.load(scales), dtype=np.float64) if scales.exists() else 1.0

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        """Whatever the simulation states."""
        stated = stated_protocol(step.protocol, step.parameters, backend=backend)
        return as_simulated(stated, int(self.place.name.rpartition("-")[2]))

    def welcome(self, step: StepMessage) -> None:
        """A simulated user takes part in everything."""

    def failed(self, error: Exception) -> None:
        """Refuse: a simulation that fails should be seen to fail."""
        raise RefusedError(Refusal.INTERNAL) from error


def open_stored(
    folder: Path, number: int, asker: Asker
) -> AbstractContextManager[tuple[RatingSource, SessionGate]]:
    """The ratings and the gate of one simulated node, which answers the server of this run alone."""
    stored = StoredCohort(_place(folder, number), asker)
    return nullcontext((stored, stored))
