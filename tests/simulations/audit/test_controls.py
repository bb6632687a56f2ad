"""The audit as a whole on broken runs: each known bug is caught, correct and empty runs are not."""

import pytest

from fedboard.simulations.audit.audit import Plan
from fedboard.simulations.audit.broken.mutants import mutants
from fedboard.simulations.audit.controls import ControlsResult, run_controls
from fedboard.simulations.audit.record import controls_record
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.conftest import audited

pytestmark = pytest.mark.slow

PLAN = Plan(canaries=300, random_users=1, small_numbers=60)


@pytest.fixture(scope="module")
def result(pool: WorkerPool) -> ControlsResult:
    return run_controls(*audited(), PLAN, pool=pool)


def test_every_mutant_is_caught(result: ControlsResult) -> None:
    names = [*(mutant.name for mutant in mutants()), "second server without noise"]
    assert [control.name for control in result.mutants] == names
    assert {control.name for control in result.mutants if not control.right} == set()
    assert result.missed == 0


def test_correct_and_empty_runs_are_not(result: ControlsResult) -> None:
    assert result.false_alarms == 0
    assert [control.epsilon_lower_bound for control in result.null] == [0.0]


def test_each_bug_is_caught_where_it_shows(result: ControlsResult) -> None:
    caught = {control.name: set(control.caught_by) for control in result.mutants}

    assert caught["unclipped labels"] == caught["unclipped vectors"] == {"sensitivity"}
    assert "sensitivity" in caught["weights not normalised"] & caught["data-dependent normaliser"]
    assert {"noise", "canaries"} <= caught["no noise"]
    assert {"file", "canaries"} <= caught["one generator for the split"]
    assert {"noise", "canaries"} <= caught["mean over the exact number"]
    assert "noise" in caught["one exact cell"] & caught["overlapping stream"]
    assert "course" in caught["round skipped by its sum"]
    assert {"noise", "canaries"} <= caught["second server without noise"]
    assert "noise" in caught["noise x 0.8"] & caught["same noise in two rounds"]
    assert "noise" in caught["count released twice"]


def test_the_record_counts_what_was_missed(result: ControlsResult) -> None:
    record = controls_record(result, {"algorithm": "adadpals"})

    assert record["controls"]["missed"] == 0
    assert record["controls"]["false_alarms"] == 0
    assert record["starts_at"] == "file"
    assert len(record["controls"]["mutants"]) == len(mutants()) + 1
    assert all(control["judged_rightly"] for control in record["controls"]["mutants"])
