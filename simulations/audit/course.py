"""The course of a run: what happens in which order. It must be the same whoever is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.cohort import Cohort
from fedboard.common.privacy.events import canonical_json
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.subject import AuditFinding, Part, Subject
from fedboard.simulations.engine import WorkerPool


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseStep:
    """One round, as somebody sees it who cannot read a single number. Public in a correct run."""

    asked: tuple[str, ...]
    """Names of the releases that were asked for."""
    published: tuple[tuple[str, tuple[int, int], tuple[int, ...]], ...]
    """Name, shape and first rows of the blocks of each release that left."""
    booked: tuple[str, ...]
    """Every event in the ledger by then, as JSON without what only says which noise it was."""
    version: int
    """Of the board that follows."""
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...]
    """Name, type and shape of each array on it."""


def step_of(played: PlayedRound) -> CourseStep:
    """What a round looks like from far away."""
    booked = ({k: v for k, v in event.items() if k != "seed"} for event in played.events.values())
    return CourseStep(
        asked=tuple(request.name for request in played.requests),
        published=tuple(
            (name, (left.values.shape[0], left.values.shape[1]), left.starts)
            for name, left in sorted(played.published.items())
        ),
        booked=tuple(canonical_json(event) for event in booked),
        version=played.after.version,
        arrays=tuple(
            (name, str(array.dtype), array.shape) for name, array in sorted(played.after.arrays.items())
        ),
    )


def same_course(courses: Mapping[str, Sequence[CourseStep]]) -> AuditFinding:
    """Whether runs over different users went the same way.

    Args:
        courses: by who was there.
    """
    (first, usual), *others = courses.items()
    differs = ""
    for who, course in others:
        for number, (one, other) in enumerate(zip(usual, course, strict=False)):
            if one != other and not differs:
                slots = CourseStep.__slots__
                what = next(name for name in slots if getattr(one, name) != getattr(other, name))
                differs = f"round {number} differs in {what} with {who} and with {first}"
        if len(usual) != len(course) and not differs:
            differs = f"{len(course)} rounds with {who} and {len(usual)} with {first}"
    same = f"{len(usual)} rounds, the same with {', '.join(courses)}"
    check = "a run takes the same course whoever is there"
    return Part.COURSE.finding(check, not differs, differs or same)


def course_test(subject: Subject, cohort: Cohort, *, seed: int, pool: WorkerPool) -> AuditFinding:
    """Play the run on a few items with nobody, with one user, with a few, and with one of them less.

    Args:
        subject: the parts.
        cohort: honest users. Private.
        seed: of the noise, where it is seeded.
        pool: where jobs run.
    """
    fewer = subject.with_fewer_items()
    users = within(cohort, fewer.catalogue.n_items)
    rows = np.arange(users.n_users)
    worlds = {
        "nobody": rows < 0,
        "one user": rows == 0,
        "some": rows >= 0,
        "one less": rows != users.n_users // 2,
    }
    courses = {}
    for who, there in worlds.items():
        present = users.where(np.repeat(there, users.counts))
        courses[who] = [step_of(played) for played in play(fewer, present, pool=pool, seed=seed)]
    return same_course(courses)


def within(cohort: Cohort, n_items: int, n_users: int = 20) -> Cohort:
    """The first users that have rated among the first items, and what they rated there."""
    few = cohort.where(cohort.items < n_items)
    there = few.where(few.counts[few.user_of_entry()] > 0)
    stop = int((there.counts > 0).cumsum().searchsorted(n_users, side="left")) + 1
    return replace(there.rows(0, min(stop, there.n_users)), n_items=n_items)
