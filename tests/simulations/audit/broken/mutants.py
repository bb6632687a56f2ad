"""Runs that are broken on purpose, each in one place: an audit that does not notice them is worth nothing.

All of them keep books as if they were right: what they state, book and claim is what the real run does. What
notices each of them stands in ``test_controls.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from fedboard.common.contribution import SumSource
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.simulations.audit.entrance import Reader
from fedboard.simulations.audit.subject import Subject
from tests.simulations.audit.broken.draws import (
    Empty,
    OverlappingNoise,
    Quiet,
    RepeatingNoise,
    Silent,
    Twice,
    published_as,
)
from tests.simulations.audit.broken.paths import exact_cell, exact_smallest, one_generator, skipping
from tests.simulations.audit.broken.rows import (
    labels_unclipped,
    scaled_by_all,
    vectors_unclipped,
    weights_whole,
)
from tests.simulations.audit.broken.tampering import Lenient, Tamper, TamperedTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One known bug."""

    name: str
    what: str
    """What is broken, one phrase."""
    break_it: Callable[[Subject], Subject] = replace
    read: Reader | None = None
    """What makes rows of a file, where that is broken."""


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
            break_it=partial(_publishing, kind=Quiet),
        ),
        Mutant(name="no noise", what="exact sums are published", break_it=partial(_publishing, kind=Silent)),
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
        *_beside_the_draws(),
    )


def _beside_the_draws() -> tuple[Mutant, ...]:
    """Bugs in how a file is read, what a task reads, when a round is skipped, and in the streams."""
    return (
        Mutant(
            name="one generator for the split",
            what="a user's coins depend on who comes before her in the file",
            read=one_generator,
        ),
        Mutant(
            name="mean over the exact number",
            what="a release of one number is read without its noise",
            break_it=exact_smallest,
        ),
        Mutant(
            name="one exact cell",
            what="a number of each release over more than 64 items is put right after the noise",
            break_it=exact_cell,
        ),
        Mutant(
            name="round skipped by its sum",
            what="the last round is left out where its exact sum is small",
            break_it=lambda subject: replace(subject, round_loop=skipping),
        ),
        Mutant(
            name="overlapping stream",
            what="a noise stream goes back by a few words every 2^16",
            break_it=lambda subject: replace(
                subject, noise=lambda seed: OverlappingNoise(inner=subject.noise(seed))
            ),
        ),
    )


def mutant_named(name: str) -> Mutant:
    """A bug by its name."""
    return {mutant.name: mutant for mutant in mutants()}[name]


def null_subject(subject: Subject) -> Subject:
    """A run whose releases are noise without data: whatever it claims, there is nothing to learn from it."""
    return _publishing(subject, kind=Empty)


def _sending(name: str, what: str, tamper: Tamper, overlooked: str) -> Mutant:
    """Devices send too much of one thing, and nobody checks it."""
    return Mutant(name=name, what=what, break_it=partial(_too_much, tamper=tamper, overlooked=overlooked))


def _too_much(subject: Subject, *, tamper: Tamper, overlooked: str) -> Subject:
    lenient = Lenient(backend=subject.protocol.backend, overlooks=overlooked)
    return replace(subject, task=TamperedTask(inner=subject.task, tamper=tamper), protocol=lenient)


def _normalised(subject: Subject) -> Subject:
    return replace(subject, task=TamperedTask(inner=subject.task, tamper=scaled_by_all))


def _publishing(subject: Subject, *, kind: type[BookedRelease], only: str | None = None) -> Subject:
    return replace(subject, opened=partial(published_as, kind=kind, only=only))


def _counted_twice(subject: Subject) -> Subject:
    """The first counts of the plan; the first release at all where nothing is counted."""
    planned = [request for requests in subject.task.plan() for request in requests]
    counts = [request.name for request in planned if request.source is SumSource.ITEM_COUNT]
    return _publishing(subject, kind=Twice, only=(counts or [planned[0].name])[0])


def _repeating(subject: Subject) -> Subject:
    return replace(subject, noise=lambda seed: RepeatingNoise(inner=subject.noise(seed)))
