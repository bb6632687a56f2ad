"""Releases drawn once more outside of any run, for as many rows as a test needs."""

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.contribution import Request
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.absent_noise import least_shares
from fedboard.common.privacy.releases.noise_shares import coins_of
from fedboard.simulations.audit.subject import Subject

_AMPLE = 1e9  # nothing that is booked here belongs to a run


class Scratch:
    """A ledger of its own for releases that are drawn again; gone when it is closed."""

    def __init__(self, subject: Subject, *, seed: int) -> None:
        """``seed`` is that of the noise, where it is seeded."""
        self._subject, self._noise = subject, subject.noise(seed)
        self._ledger: Ledger | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def draw(self, request: Request, *, rows: int, sums: IntArray | None = None) -> tuple[Event, FloatArray]:
        """Book a release with another number of rows and publish sums through it; each name once.

        Release, noise and publication are the run's own but for the rows: what is wrong there is wrong here too.

        Args:
            request: whose release.
            rows: how many rows to draw.
            sums: int64, shape (rows, width), grid units; zeros if not given.

        Returns:
            What was booked, and what left: float64, shape (rows, width), real units.
        """
        release = replace(request.release, rows=rows)
        exact = np.zeros((rows, release.width), dtype=np.int64) if sums is None else sums
        booked = self._subject.publisher(release.book(self._opened(), self._noise))
        if self._subject.sessions is not None:
            exact = exact + self._subject.sessions.shares(release, coins_of(self._noise))
        least = least_shares(booked.event)
        return booked.event, booked.publish(exact, noise_shares=least)

    def _opened(self) -> Ledger:
        if self._ledger is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fedboard-audit-"))
            budget = self._subject.budget
            ample = Budget(epsilon=_AMPLE, delta=budget.delta, adjacency=budget.adjacency)
            self._ledger = self._stack.enter_context(Ledger.create(Path(folder) / "ledger.sqlite", ample))
        return self._ledger


__all__ = ["Scratch"]
