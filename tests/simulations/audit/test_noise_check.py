"""The noise test on a whole run: silent for correct noise, loud for every way of getting it wrong."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseStream
from fedboard.simulations.audit.noise_check import NoiseResult
from fedboard.simulations.audit.subject import ENOUGH, Subject
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.conftest import audited, noise_of

pytestmark = pytest.mark.slow


FEW = 30
"""Numbers of small releases, where the large ones show what is broken: noise of 0.8 times its size is 20 deviations
off in the 5400 numbers of one round's ``quadratic``, of 1.1 times 10, and 4.4 are flagged.
"""


def outcome(
    pool: WorkerPool, subject: Subject | None = None, *, kind: str = "explicit", small_numbers: int = ENOUGH
) -> NoiseResult:
    correct, entrance = audited(kind)
    return noise_of(subject or correct, entrance, pool, small_numbers=small_numbers)


def failed(result: NoiseResult) -> set[str]:
    return {finding.check for finding in result.findings if not finding.passed}


@pytest.mark.parametrize(
    ("kind", "small_numbers"),
    [
        ("explicit", ENOUGH),
        ("implicit", 100),
        ("replace", 100),
        ("spectral", 60),
    ],
)
def test_a_correct_run_passes_and_wrong_claims_about_it_would_not(
    kind: str, small_numbers: int, pool: WorkerPool
) -> None:
    result = outcome(pool, kind=kind, small_numbers=small_numbers)

    assert not failed(result)
    assert all(line.twins_noticed for line in result.lines)
    assert all(abs(line.ratio - 1) < 0.04 for line in result.lines if line.n_numbers >= 8192)
    assert all(abs(line.ratio - 1) < 5 / np.sqrt(2 * line.n_numbers) for line in result.lines)
    assert all(line.n_numbers >= small_numbers for line in result.lines)


class _TooMuch(BookedRelease):
    """Noise that hurts without protecting."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        exact = sums * self.release.grid_step
        return np.asarray(
            exact
            + 1.1
            * (
                super().publish(
                    sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits
                )
                - exact
            )
        )

    def part(self, start_row: int, stop_row: int) -> BookedRelease:
        return _remade(super().part(start_row, stop_row), _TooMuch)


class _StartsAnew(BookedRelease):
    """Every process begins its stream at its start, whichever rows it publishes."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        first_rows = BookedRelease(
            release=self.release, event=self.event, receipt=replace(self.receipt), stream=self.stream
        )
        return first_rows.publish(sums, noise_shares=noise_shares, residue_bits=residue_bits)

    def part(self, start_row: int, stop_row: int) -> BookedRelease:
        return _remade(super().part(start_row, stop_row), _StartsAnew)


def _remade(booked: BookedRelease, kind: type[BookedRelease]) -> BookedRelease:
    receipt = replace(booked.receipt)  # as if it had not been used
    return kind(release=booked.release, event=booked.event, receipt=receipt, stream=booked.stream)


@pytest.mark.parametrize(
    ("kind", "check"),
    [(_TooMuch, "noise has the size that is booked"), (_StartsAnew, "noise repeats nowhere")],
)
def test_too_much_noise_and_noise_that_processes_share_are_noticed(
    kind: type[BookedRelease], check: str, pool: WorkerPool
) -> None:
    correct, _ = audited()
    broken = replace(
        correct,
        opened=lambda engine, sums, requests, booked: engine.open(
            sums, requests, {name: _remade(release, kind) for name, release in booked.items()}
        ),
    )

    assert check in failed(outcome(pool, broken, small_numbers=FEW))


class _OneKey:
    """A source that gives every release the same stream."""

    private, label = False, "one key"

    def describe(self) -> dict[str, object]:
        return {"noise": self.label, "private": False}

    def stream(self, name: str) -> NoiseStream:
        return NoiseStream(key=bytes(32))


def test_one_stream_for_all_releases_is_noticed(pool: WorkerPool) -> None:
    correct, _ = audited()

    result = outcome(pool, replace(correct, noise=lambda seed: _OneKey()), small_numbers=FEW)

    assert "noise repeats nowhere" in failed(result)
