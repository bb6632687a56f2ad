"""Runs that are broken on purpose, each in one place: an audit that does not notice them is worth nothing.

All of them keep books as if they were right: what they state, book and claim is what the real run does.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError
from fedboard.common.per_user.clipping import LINEAR_BOUND, RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.simulations.audit.broken.tampering import Lenient, Tamper, TamperedTask
from fedboard.simulations.audit.subject import Subject

NOISE_FACTOR = 0.8
"""Of the noise that is 20 % too small."""
_AT_BOUND = 0.99
_LONGER = 8
_LARGEST = int(np.iinfo(np.int16).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One known bug."""

    name: str
    what: str
    """What is broken, one phrase."""
    break_it: Callable[[Subject], Subject]


def mutants() -> tuple[Mutant, ...]:
    """The bugs that an audit must notice."""
    return (
        _sending("unclipped labels", "labels are sent as large as they are", labels_unclipped, "responses"),
        _sending("unclipped vectors", "vectors are sent as long as they are", vectors_unclipped, "vectors"),
        _sending("weights not normalised", "each item gets a user's whole weight", weights_whole, "weights"),
        Mutant(
            name="data-dependent normaliser",
            what="devices scale by the mean norm of all users",
            break_it=_normalised,
        ),
        Mutant(
            name="noise x 0.8",
            what="the draw has 0.8 of the deviation that is booked",
            break_it=with_little_noise,
        ),
        Mutant(name="no noise", what="exact sums are published", break_it=partial(_publishing, kind=_Silent)),
        Mutant(
            name="count released twice",
            what="two draws for one booking, published as their mean",
            break_it=_counted_twice,
        ),
        Mutant(
            name="same noise in two rounds",
            what="the noise depends on the kind of release, not on the round",
            break_it=_repeating,
        ),
    )


def mutant_named(name: str) -> Mutant:
    """A bug by its name.

    Raises:
        InputError: there is none of that name.
    """
    known = {mutant.name: mutant for mutant in mutants()}
    if name not in known:
        raise InputError(f"a broken run must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def null_subject(subject: Subject) -> Subject:
    """A run whose releases are noise without data: whatever it claims, there is nothing to learn from it."""
    return _publishing(subject, kind=_Empty)


def with_little_noise(subject: Subject) -> Subject:
    """A run with 0.8 of the noise that it books."""
    return _publishing(subject, kind=_Quiet)


def labels_unclipped(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Where a label was clipped, or a row by its joint bound, it becomes eight times as large."""
    if sent.responses is None:
        return sent
    clipped = np.abs(sent.responses) >= RESPONSE_BOUND
    joint = min(
        (r.release.l2_bound for r in requests if r.source is SumSource.ITEM_LINEAR), default=LINEAR_BOUND
    )
    if joint < LINEAR_BOUND:
        clipped |= np.repeat(_linear_norms(sent) >= _AT_BOUND * joint, np.diff(sent.indptr))
    longer = np.where(clipped, _LONGER * sent.responses.astype(np.int64), sent.responses)
    return replace(sent, responses=np.clip(longer, -_LARGEST, _LARGEST).astype(np.int16))


def vectors_unclipped(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Where a vector was clipped, only its largest number is: its norm is then up to sqrt(rank) bounds.

    More would not get through: the kernels refuse larger numbers.
    """
    if sent.vectors is None:
        return sent
    vectors = sent.vectors.astype(np.float64)
    clipped = np.linalg.norm(vectors, axis=1) >= _AT_BOUND * VECTOR_BOUND
    largest = np.abs(vectors).max(axis=1, initial=1.0)
    longer = np.where(clipped, VECTOR_BOUND / largest, 1.0)[:, None]
    return replace(sent, vectors=np.trunc(vectors * longer).astype(np.int16))


def weights_whole(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Every item that has any weight gets all that a user has."""
    if sent.weights is None:
        return sent
    return replace(sent, weights=np.where(sent.weights > 0, WEIGHT_ONE, 0).astype(np.int16))


def scaled_by_all(sent: Contribution, requests: Sequence[Request]) -> Contribution:
    """Scale by the mean norm of all rows. Every row keeps its bounds, so no check of rows can notice."""
    if sent.vectors is not None:
        mean = float(np.mean(np.linalg.norm(sent.vectors.astype(np.float64), axis=1))) / VECTOR_BOUND
        return replace(sent, vectors=np.trunc(sent.vectors * mean).astype(np.int16))
    if sent.weights is None:
        return sent
    mean = float(np.linalg.norm(sent.weights.astype(np.float64))) / WEIGHT_ONE / np.sqrt(sent.n_users)
    return replace(sent, weights=np.trunc(sent.weights * min(1.0, mean)).astype(np.int16))


def _linear_norms(sent: Contribution) -> FloatArray:
    assert sent.weights is not None
    assert sent.responses is not None
    assert sent.vectors is not None
    parts = np.square(sent.weights.astype(np.float64) * sent.responses)
    running = np.concatenate([np.zeros(1), np.cumsum(parts)])
    rows = running[sent.indptr[1:]] - running[sent.indptr[:-1]]
    return np.asarray(np.sqrt(rows) * np.linalg.norm(sent.vectors.astype(np.float64), axis=1))


def _sending(name: str, what: str, tamper: Tamper, overlooked: str) -> Mutant:
    """Devices send too much of one thing, and nobody checks it."""
    return Mutant(name=name, what=what, break_it=partial(_too_much, tamper=tamper, overlooked=overlooked))


def _too_much(subject: Subject, *, tamper: Tamper, overlooked: str) -> Subject:
    lenient = Lenient(form=subject.protocol.form, backend=subject.protocol.backend, overlooks=overlooked)
    return replace(subject, task=TamperedTask(inner=subject.task, tamper=tamper), protocol=lenient)


def _normalised(subject: Subject) -> Subject:
    return replace(subject, task=TamperedTask(inner=subject.task, tamper=scaled_by_all))


def _publishing(subject: Subject, *, kind: type[BookedRelease], only: str | None = None) -> Subject:
    return replace(subject, publisher=partial(_as_kind, kind=kind, only=only))


def _as_kind(booked: BookedRelease, *, kind: type[BookedRelease], only: str | None = None) -> BookedRelease:
    """The same booked release, published in another way; all of them, or the one with this name."""
    if only not in (None, booked.release.name):
        return booked
    return kind(**{entry.name: getattr(booked, entry.name) for entry in fields(booked)})


def _counted_twice(subject: Subject) -> Subject:
    """The first counts of the plan; the first release at all where nothing is counted."""
    planned = [request for requests in subject.task.plan() for request in requests]
    counts = [request.name for request in planned if request.source is SumSource.ITEM_COUNT]
    return _publishing(subject, kind=_Twice, only=(counts or [planned[0].name])[0])


def _repeating(subject: Subject) -> Subject:
    return replace(subject, noise=lambda seed: _RepeatingNoise(inner=subject.noise(seed)))


class _Broken(BookedRelease):
    """Published in another way, by whichever process publishes a part of it."""

    __slots__ = ()

    def part(self, start_row: int, stop_row: int) -> BookedRelease:
        return _as_kind(super().part(start_row, stop_row), kind=type(self))


class _Quiet(_Broken):
    """Less noise than was booked."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        exact = sums * self.release.grid_step
        noise = (
            super().publish(sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits)
            - exact
        )
        return np.asarray(exact + NOISE_FACTOR * noise, dtype=np.float64)


class _Silent(_Broken):
    """No noise."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        return np.asarray(sums * self.release.grid_step, dtype=np.float64)


class _Twice(_Broken):
    """The mean of two publications with a stream each."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        other = replace(self.stream, key=hashlib.sha256(self.stream.key + b"again").digest())
        again = BookedRelease(
            release=self.release, event=self.event, receipt=replace(self.receipt), stream=other
        )
        first, second = (
            super().publish(sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits),
            again.publish(sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits),
        )
        return np.asarray((first + second) / 2.0, dtype=np.float64)


class _Empty(_Broken):
    """Noise around zero."""

    __slots__ = ()

    def publish(
        self, sums: IntArray, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> FloatArray:
        return super().publish(
            np.zeros_like(sums), start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RepeatingNoise:
    """A noise source that gives releases of one kind one stream."""

    inner: NoiseSource
    _streams: dict[str, NoiseStream] = field(default_factory=dict, repr=False)

    @property
    def private(self) -> bool:
        return self.inner.private

    @property
    def label(self) -> str:
        return self.inner.label

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def stream(self, name: str) -> NoiseStream:
        kind = name.rpartition("/")[2]
        return self._streams.setdefault(kind, self.inner.stream(kind))


__all__ = [
    "NOISE_FACTOR",
    "Mutant",
    "labels_unclipped",
    "mutant_named",
    "mutants",
    "null_subject",
    "scaled_by_all",
    "vectors_unclipped",
    "weights_whole",
    "with_little_noise",
]
