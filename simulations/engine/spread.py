"""Exact sums of which some rows are there at once, and noised sums whose items are spread over the workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.contribution import Request
from fedboard.common.protocol import ExactSums
from fedboard.common.task import ItemBlockSolver
from fedboard.server.runtime import NoisedSums, item_blocks, noised_block
from fedboard.simulations.engine.merging import SpanSums
from fedboard.simulations.engine.pool import Job
from fedboard.simulations.engine.spans import SpanWork


class SumsByParts:
    """Exact sums of which not all are there at once: users are gone through again for each part of the items."""

    rejected_rows: ClassVar[int] = 0
    noise_shares: ClassVar[int] = 0
    noise_ratio: ClassVar[float] = 1.0
    residue_bits: ClassVar[Mapping[str, int]] = {}

    def __init__(
        self,
        summed: Callable[[SpanWork], SpanSums],
        work: SpanWork,
        whole: Mapping[str, IntArray],
        most_bytes: int,
    ) -> None:
        self._summed, self._work, self._whole = summed, work, whole
        self._most_bytes, self._first = most_bytes, 0
        self._part: Mapping[str, IntArray] = {}

    def rows_at_once(self, requests: Sequence[Request]) -> int:
        """How many rows of these requests' sums are there at once; at least one."""
        return max(1, self._most_bytes // (8 * sum(request.release.width for request in requests)))

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums."""
        if all(request.name in self._whole for request in requests):
            return {request.name: self._whole[request.name][start:stop] for request in requests}
        if not self._holds(requests, start, stop):
            behind = max(stop, start + self.rows_at_once(requests))
            rows = (start, min(behind, requests[0].release.rows))
            asked = replace(self._work, summed=tuple(requests), rows=rows)
            self._part = {}
            self._part, self._first = self._summed(asked).sums, start
        shown = slice(start - self._first, stop - self._first)
        return {request.name: self._part[request.name][shown] for request in requests}

    def _holds(self, requests: Sequence[Request], start: int, stop: int) -> bool:
        there = [self._part.get(request.name) for request in requests]
        return all(a is not None and self._first <= start and stop - self._first <= len(a) for a in there)


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeRows:
    """Some rows of exact sums, by release name, so that a worker gets those it works on and no others. Secret."""

    first: int
    """Number of the first row."""
    sums: Mapping[str, IntArray]
    rejected_rows: int
    noise_shares: int
    noise_ratio: float
    residue_bits: Mapping[str, int]

    @staticmethod
    def of(sums: ExactSums, requests: Sequence[Request], start: int, stop: int) -> "SomeRows":
        """Rows ``start:stop`` alone."""
        return SomeRows(
            first=start,
            sums=sums.block(requests, start, stop),
            rejected_rows=sums.rejected_rows,
            noise_shares=sums.noise_shares,
            noise_ratio=sums.noise_ratio,
            residue_bits=dict(sums.residue_bits),
        )

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums."""
        return {r.name: self.sums[r.name][start - self.first : stop - self.first] for r in requests}


class SpreadSums:
    """Noised sums whose per-item work is spread over the workers."""

    def __init__(self, here: NoisedSums, run: Callable[..., list[Any]], n_blocks: int) -> None:
        self._here, self._run, self._n_blocks = here, run, n_blocks

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise over the booked one."""
        return self._here.noise_ratio

    def array(self, name: str) -> FloatArray:
        """One release as a whole."""
        return self._here.array(name)

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Each worker noises and solves blocks of items; no two blocks share a row."""
        requests, sums = [r for r in self._here.requests if r.name in names], self._here.sums
        at_once = sums.rows_at_once(requests) if isinstance(sums, SumsByParts) else requests[0].release.rows
        solved: list[Float32Array] = []
        work: list[Job] = []
        first = 0
        for start, stop in item_blocks(requests, at_least=self._n_blocks):
            if work and stop - first > at_once:  # the workers are to be free for the sums of the next part
                solved += self._run("items", work)
                work, first = [], start
            booked = {r.name: self._here.booked[r.name].part(start, stop) for r in requests}
            rows = SomeRows.of(sums, requests, start, stop)
            work.append(partial(noised_block, rows, requests, booked, solver, start, stop))
        solved += self._run("items", work)
        return np.concatenate(solved) if solved else np.empty((0, width), dtype=np.float32)
