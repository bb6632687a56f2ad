"""What a runtime is: the place where the clients of a round run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.task import ItemBlockSolver, ReleasedSums

_NUMBERS_PER_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a round cost on the wire, per client; for the report, not for publication (sizes are private)."""

    up: Mapping[str, float]
    """Bytes that clients sent: ``mean``, ``p50`` and ``p95`` (that half or 95 % of them are below), ``max``."""
    down: int
    """Bytes that each got."""

    @staticmethod
    def of(sizes: IntArray, down: int) -> "Traffic | None":
        """What clients sent (bytes, int64, shape (n_users,)) and got; None where nobody took part."""
        found, counts = np.unique(sizes, return_counts=True)
        return Traffic.of_counted(dict(zip(found.tolist(), counts.tolist(), strict=True)), down)

    @staticmethod
    def of_counted(sizes: Mapping[int, int], down: int) -> "Traffic | None":
        """The same of sizes with how many clients sent as much, so that nothing grows with clients."""
        if not sizes:
            return None
        values, clients = np.array(list(sizes)), np.array(list(sizes.values()))
        mean = float(np.average(values, weights=clients))
        median, high = np.quantile(values, (0.5, 0.95), weights=clients, method="inverted_cdf").tolist()
        up = {"mean": mean, "p50": float(median), "p95": float(high), "max": float(values.max())}
        return Traffic(up=up, down=down)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The outcome of asking all clients: exact sums that are still secret, and what it cost."""

    sums: ExactSums
    traffic: Traffic | None = None


class Runtime(Protocol):
    """Runs the clients of a round: in this process, in worker processes, over a network."""

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Ask the clients, and sum exactly. Nothing leaves yet.

        Args:
            board: the last published board.
            requests: as marked by ``attendance``.
            attendance: draws who takes part (``attendance.draw``); nobody else may add anything to any sum.
                None: everybody takes part.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance (``require_unsampled``).
            TooFewAnswersError: too few answered for a release.
        """
        ...

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisedSums:
    """Noised sums, computed in this process and block by block."""

    sums: ExactSums
    requests: Sequence[Request]
    booked: Mapping[str, BookedRelease]

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise over the booked one."""
        return self.sums.noise_ratio

    def array(self, name: str) -> FloatArray:
        """One release as a whole, float64, shape (rows, width)."""
        request = next(r for r in self.requests if r.name == name)
        exact = self.sums.block([request], 0, request.release.rows)
        return _published(self.sums, self.booked[name], exact[name], 0)

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Run ``solver`` over blocks of items; float32, shape (n_items, width)."""
        requests = [r for r in self.requests if r.name in names]
        blocks = item_blocks(requests)
        return np.concatenate([noised_block(self.sums, requests, self.booked, solver, *b) for b in blocks])


def _published(sums: ExactSums, booked: BookedRelease, values: IntArray, start_row: int) -> FloatArray:
    """Rows of these sums through their release, with what the sums state of themselves."""
    return booked.publish(
        values,
        start_row=start_row,
        noise_shares=sums.noise_shares,
        residue_bits=sums.residue_bits.get(booked.release.name, 0),
    )


def item_blocks(requests: Sequence[Request], *, at_least: int = 1) -> list[tuple[int, int]]:
    """Split the items so that a block of all these releases has about a million numbers."""
    rows = requests[0].release.rows
    width = sum(r.release.width for r in requests)
    size = max(1, min(_NUMBERS_PER_BLOCK // width, -(-rows // at_least)))
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def noised_block(
    sums: ExactSums,
    requests: Sequence[Request],
    booked: Mapping[str, BookedRelease],
    solver: ItemBlockSolver,
    start: int,
    stop: int,
) -> Float32Array:
    """Exact sums of one block of items, noised, solved; float32, shape (stop - start, width)."""
    exact = sums.block(requests, start, stop)
    noised = {name: _published(sums, booked[name], values, start) for name, values in exact.items()}
    return solver(start, noised)
