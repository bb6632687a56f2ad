"""Releases that are published in another way than they were booked, and streams that repeat themselves."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.contribution import Request
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.common.protocol import ExactSums
from fedboard.common.task import ReleasedSums
from fedboard.simulations.engine import Engine

NOISE_FACTOR = 0.8
"""Of the noise that is 20 % too small."""
_LAPS, _OVERLAP = 1 << 16, 8


def published_as(
    engine: Engine,
    sums: ExactSums,
    requests: Sequence[Request],
    booked: Mapping[str, BookedRelease],
    *,
    kind: type[BookedRelease],
    only: str | None = None,
) -> ReleasedSums:
    """What an engine opens of releases that are published in another way."""
    leaving = {name: as_kind(release, kind=kind, only=only) for name, release in booked.items()}
    return engine.open(sums, requests, leaving)


def as_kind(booked: BookedRelease, *, kind: type[BookedRelease], only: str | None = None) -> BookedRelease:
    """The same booked release, published in another way; all of them, or the one with this name."""
    if only not in (None, booked.release.name):
        return booked
    return kind(**{entry.name: getattr(booked, entry.name) for entry in fields(booked)})


class Broken(BookedRelease):
    """Published in another way, by whichever process publishes a part of it."""

    __slots__ = ()

    def part(self, start_row: int, stop_row: int) -> BookedRelease:
        """As broken as the whole."""
        return as_kind(super().part(start_row, stop_row), kind=type(self))


class Quiet(Broken):
    """Less noise than was booked."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        """Some of the noise."""
        exact = sums * self.release.grid_step
        noise = (
            super().publish(sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits)
            - exact
        )
        return np.asarray(exact + NOISE_FACTOR * noise, dtype=np.float64)


class Silent(Broken):
    """No noise."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        """None of it."""
        return np.asarray(sums * self.release.grid_step, dtype=np.float64)


class Twice(Broken):
    """The mean of two publications with a stream each."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        """Both, and their mean."""
        other = replace(self.stream, key=hashlib.sha256(self.stream.key + b"again").digest())
        again = BookedRelease(
            release=self.release, event=self.event, receipt=replace(self.receipt), stream=other
        )
        first, second = (
            super().publish(sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits),
            again.publish(sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits),
        )
        return np.asarray((first + second) / 2.0, dtype=np.float64)


class Empty(Broken):
    """Noise around zero."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        """Noise alone."""
        return super().publish(
            np.zeros_like(sums), start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SaysAsBefore:
    """A noise source that says of itself what an honest one says."""

    inner: NoiseSource

    @property
    def private(self) -> bool:
        """The honest one's."""
        return self.inner.private

    @property
    def label(self) -> str:
        """The honest one's."""
        return self.inner.label

    def describe(self) -> dict[str, Any]:
        """The honest one's."""
        return self.inner.describe()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatingNoise(_SaysAsBefore):
    """A noise source that gives releases of one kind one stream."""

    _streams: dict[str, NoiseStream] = field(default_factory=dict, repr=False)

    def stream(self, name: str) -> NoiseStream:
        """The same one for every round."""
        kind = name.rpartition("/")[2]
        return self._streams.setdefault(kind, self.inner.stream(kind))


class OverlappingStream(NoiseStream):
    """Word k is word ``k - 8 floor(k / 2^16)`` of the honest stream."""

    __slots__ = ()

    def bits(self, offset: int, count: int) -> BitArray:
        """Words, some of them twice."""
        wanted = np.arange(offset, offset + count)
        places = wanted - _OVERLAP * (wanted // _LAPS)
        if not count:
            return super().bits(offset, 0)
        start = int(places.min())
        words: BitArray = super().bits(start, int(places.max()) - start + 1)[places - start]
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlappingNoise(_SaysAsBefore):
    """A source of such streams."""

    def stream(self, name: str) -> OverlappingStream:
        """Of the honest one's key."""
        return OverlappingStream(key=self.inner.stream(name).key)
