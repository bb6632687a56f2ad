"""The course of a run: the same whoever is there, unless something exact decides."""

import pytest

from fedboard.simulations.audit.course import course_test, same_course, step_of
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.conftest import KINDS, audited, rounds_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", list(KINDS))
def test_correct_runs_take_the_same_course_whoever_is_there(kind: str, pool: WorkerPool) -> None:
    subject, entrance = audited(kind)

    finding = course_test(subject, entrance.honest_rows().cohort, seed=1, pool=pool)

    assert finding.passed, finding.detail


def test_a_run_that_ends_early_is_noticed(pool: WorkerPool) -> None:
    subject, entrance = audited()
    steps = [step_of(played) for played in rounds_of(subject, entrance, pool)]

    assert same_course({"one": steps, "other": list(steps)}).passed
    assert "1 rounds" not in same_course({"one": steps, "other": list(steps)}).detail
    assert not same_course({"one": steps, "other": steps[:-1]}).passed
