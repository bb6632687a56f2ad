"""A run's state is what its files say, whoever writes them; what is not booked only its operator is told."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.operating.live.run_files import RunFiles, run_files
from fedboard.server.operating.live.run_source import SIMULATION_ONLY, RunSource
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey, create_board_keys
from fedboard.simulations.config import parse_config
from fedboard.simulations.judging.live_numbers import simulation_numbers
from fedboard.simulations.simulate import simulate

pytestmark = pytest.mark.slow

ROUNDS = 2
NOT_PUBLIC = {
    "answers": 17_031,
    "bytes_up": 17_033,
    "bytes_down": 17_037,
    "rejected_rows": 17_039,
    "seconds": 17_041.5,
}
"""What a fleet's log holds beside, recognisable."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation that is over, with an account of its users."""
    folder = tmp_path_factory.mktemp("live") / "run"
    made_up = {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}
    config = {
        "algorithm": "adadpals",
        "data": {"synthetic": made_up},
        "settings": {"rank": 2, "rounds": ROUNDS},
        "run": {"baselines": False, "kernels": "numpy"},
    }
    simulate(parse_config(config), folder, report=False)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def as_under_way(run: Path, *, boards: int) -> None:
    """As it was after so many boards, with this process at work on it: the next round is booked or not yet."""
    for path in sorted((run / "boards").glob("*.board"))[boards:]:
        path.unlink()
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[: boards - 1]), encoding="utf-8")
    (run / "ledger.sqlite.lock").write_text(str(os.getpid()))


def as_a_fleets(run: Path) -> RunFiles:
    """The same run as a fleet's server keeps it, with counts that no budget covers."""
    state = run.parent / "state"
    folder = state / "runs" / "films"
    folder.parent.mkdir(parents=True)
    shutil.move(run, folder)
    (state / "job.json").write_text(json.dumps({"rounds": {"expected_nodes": 17_047}}))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rounds = [
        line | NOT_PUBLIC | {"refused": {"late": 2}, "lost": False} for line in lines if "round" in line
    ]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds))
    for name in ("metrics.jsonl", "config.json", "distributions.json"):
        (folder / name).unlink()
    return run_files(state)


def state_of(
    files: RunFiles, *, for_operator: bool = True, key: PinnedKey | None = None
) -> Mapping[str, Any]:
    extra = simulation_numbers if files.is_simulation else None
    state = RunSource(files=files, for_operator=for_operator, extra=extra, key=key).read()
    json.dumps(state, allow_nan=False)
    return state


def checks(state: Mapping[str, Any]) -> dict[str, str]:
    return {one["check"]: one["state"] for one in state["board"]["checks"]}


def test_a_finished_run_tells_its_whole_budget_and_every_round(run: Path) -> None:
    state = state_of(run_files(run))

    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        events, budget = ledger.events(), ledger.budget
    assert state["state"] == "finished"
    assert state["budget"]["spent"] == epsilon_of_events(events, budget.delta)
    assert state["budget"]["epsilon"] == budget.epsilon
    assert state["budget"]["next"] is None
    assert [one["state"] for one in state["rounds"]["list"]] == ["made"] * (ROUNDS + 1)
    assert {one["name"]: one["epsilon"] for one in state["releases"]} == {
        event["name"]: pytest.approx(epsilon_of_events([event], budget.delta), rel=1e-12) for event in events
    }
    assert all(one["booked"] for one in state["releases"])
    assert checks(state) == dict.fromkeys(("bytes", "chain", "ledger", "promise"), "passed") | {
        "noise": "failed",
        "signature": "open",
    }
    assert state["noise"]["protection"] == "simulation"


def test_metrics_stand_under_the_label_and_nowhere_else(run: Path) -> None:
    state = dict(state_of(run_files(run)))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    values = [value for line in lines for value in line["metrics"].values()]

    labelled = state.pop("simulation")

    assert len(values) >= 2 * ROUNDS
    assert labelled["label"] == SIMULATION_ONLY
    assert all(json.dumps(value) in json.dumps(labelled) for value in values)
    assert not [value for value in values if json.dumps(value) in json.dumps(state)]


def test_a_round_that_is_booked_and_not_published_counts_as_spent(run: Path) -> None:
    as_under_way(run, boards=ROUNDS + 1)

    state = state_of(run_files(run))

    assert state["state"] == "running"
    assert [one["state"] for one in state["rounds"]["list"]] == ["made"] * ROUNDS + ["booked"]
    assert state["rounds"]["made"] == ROUNDS
    assert state["budget"]["left"] < 1e-6
    assert state["board"]["version"] == ROUNDS


def test_before_a_round_is_booked_its_plan_is_told(tmp_path: Path, finished: Path) -> None:
    with Ledger.open(finished / "ledger.sqlite", read_only=True) as ledger:
        budget, plan = ledger.budget, ledger.plan
        first = [event for event in ledger.events() if not event["name"].startswith("round-")]
        of_next = [event for event in ledger.events() if event["name"].startswith("round-1/")]
    run = tmp_path / "run"
    (run / "boards").mkdir(parents=True)
    for version in (0, 1):
        shutil.copy(finished / "boards" / f"board-{version:04d}.board", run / "boards")
    with Ledger.create(run / "ledger.sqlite", budget, plan=plan) as ledger:
        ledger.book_all(first)
        state = state_of(run_files(run))

    spent, after = (epsilon_of_events(events, budget.delta) for events in (first, first + of_next))
    assert state["state"] == "running", "the ledger is open for writing, here"
    assert state["budget"]["spent"] == spent
    assert state["budget"]["next"] == pytest.approx(after - spent, rel=1e-9)
    assert [one["state"] for one in state["rounds"]["list"]] == ["made", "next", "to come"]
    assert [one["booked"] for one in state["releases"]].count(True) == len(first)


def test_a_run_that_nobody_works_on_is_said_to_be_stopped(run: Path) -> None:
    as_under_way(run, boards=ROUNDS)
    (run / "ledger.sqlite.lock").write_text("999999999")

    assert state_of(run_files(run))["state"] == "stopped"


def test_a_changed_board_shows_a_broken_seal(run: Path) -> None:
    newest = sorted((run / "boards").glob("*.board"))[-1]
    content = newest.read_bytes()
    newest.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])

    assert checks(state_of(run_files(run)))["bytes"] == "failed"


def test_a_ledger_of_another_run_shows(run: Path, finished: Path) -> None:
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        budget, plan, events = ledger.budget, ledger.plan, ledger.events()
    (run / "ledger.sqlite").unlink()
    with Ledger.create(run / "ledger.sqlite", budget, plan=plan) as other:
        other.book_all(events)

    found = checks(state_of(run_files(run)))

    assert found["ledger"] == "failed"
    assert found["promise"] == "passed"


@pytest.mark.parametrize("content", [b"", b"not a ledger", b'{"event": "round", "round": NaN}\n\x00\xff'])
def test_damaged_files_are_a_state_and_no_crash(run: Path, content: bytes) -> None:
    (run / "ledger.sqlite").write_bytes(content)

    state = state_of(run_files(run))

    assert state["state"] == "unreadable"
    assert "ledger.sqlite" in state["told"]
    assert "ledger.sqlite" not in state_of(run_files(run), for_operator=False)["told"]


def test_a_line_that_makes_no_sense_ends_the_log_and_odd_numbers_are_none(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    odd = json.loads(lines[1]) | {
        "metrics": {"validation_rmse": float("nan"), "x": "<b>"},
        "seconds": float("inf"),
    }
    (run / "metrics.jsonl").write_text("\n".join([lines[0], json.dumps(odd), "{half a li"]), encoding="utf-8")

    state = state_of(run_files(run))

    assert [len(one["metrics"]) for one in state["simulation"]["rounds"]][1:] == [0]


def test_who_answered_is_told_on_this_machine_and_left_out_beyond_it(run: Path) -> None:
    files = as_a_fleets(run)

    here, beyond = state_of(files), state_of(files, for_operator=False)

    assert here["name"] == "films"
    assert here["answers"]["answers"] == (ROUNDS + 1) * NOT_PUBLIC["answers"]
    assert here["answers"]["refused"] == {"late": 2 * (ROUNDS + 1)}
    assert here["answers"]["rounds"][0]["silent"] == 17_047 - NOT_PUBLIC["answers"] - 2
    assert beyond["answers"] is None
    assert beyond["budget"] == here["budget"]
    told = json.dumps(beyond)
    assert not [value for value in NOT_PUBLIC.values() if str(value) in told]
    assert "late" not in told
    assert beyond["simulation"] is None


def test_a_board_that_is_signed_is_checked_with_the_key(run: Path) -> None:
    files = as_a_fleets(run)
    keys = files.folder.parent.parent.parent / "keys"
    keys.mkdir()
    create_board_keys(keys)
    key = SigningKey.read(keys / "board-signing.key")
    other = keys / "other"
    other.mkdir()
    create_board_keys(other)
    assert files.mirror is not None
    publish_into(Mirror(files.mirror), files.boards, key=key, run="films", simulation=True)

    assert checks(state_of(files, key=key.public))["signature"] == "passed"
    assert checks(state_of(files, key=PinnedKey.read(other / "board-signing.pub")))["signature"] == "failed"
    assert checks(state_of(files))["signature"] == "open"


def test_looking_changes_no_file_of_the_run(run: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}

    before, files = contents(), run_files(run)
    signature = files.signature()
    for _ in range(3):
        state_of(files)

    assert contents() == before
    assert files.signature() == signature, "or it would be read again for ever"


def test_what_is_no_run_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for place in (tmp_path, tmp_path / "missing", tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="give the folder of a run"):
            run_files(place)
