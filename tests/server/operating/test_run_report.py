"""A run's report is what its files say, whoever writes them; what is not booked stays out of it."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.reports.wording import spent
from fedboard.server.operating.run_files import RunFiles, run_files
from fedboard.server.operating.run_report import RunReport
from fedboard.simulations.config import parse_config
from fedboard.simulations.reports import simulation_sections
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
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rounds = [
        line | NOT_PUBLIC | {"refused": {"late": 2}, "lost": False} for line in lines if "round" in line
    ]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds))
    for name in ("metrics.jsonl", "config.json"):
        (folder / name).unlink()
    return run_files(state)


class Page:
    """A page as it was written, for those who look for something in it."""

    def __init__(self, html: str) -> None:
        self.html = html
        shown = re.sub(r"<(style|script).*?</\1>", "", html, flags=re.S)
        self.text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", shown))

    @property
    def state(self) -> str:
        return str(re.search(r'<html lang="en" data-state="([^"]*)"', self.html)[1])  # type: ignore[index]

    @property
    def checks(self) -> dict[str, str]:
        return dict(re.findall(r'<li data-step="(\w+)" data-state="(\w+)">', self.html))

    def section(self, name: str) -> str:
        found = re.search(rf'<section id="{name}".*?</section>', self.html, flags=re.S)
        return "" if found is None else found[0]

    def states(self, table: str) -> list[str]:
        found = re.search(rf'<table id="{table}">.*?</table>', self.html, flags=re.S)
        return [] if found is None else re.findall(r'<tr data-state="([^"]*)"', found[0])


def page_of(files: RunFiles) -> Page:
    sections = simulation_sections if files.is_simulation else None
    return Page(RunReport(files=files, sections=sections).page())


def test_a_finished_run_tells_its_whole_budget_and_every_round(run: Path) -> None:
    page = page_of(run_files(run))

    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        events, budget = ledger.events(), ledger.budget
    assert page.state == "finished"
    whole = spent(epsilon_of_events(events, budget.delta))
    assert f"<strong>{whole} of {budget.epsilon:g}</strong>" in page.section("budget")
    assert page.states("rounds-table") == ["made"] * (ROUNDS + 1)
    assert page.states("releases-table") == ["booked-release"] * len(events)
    passed = dict.fromkeys(("bytes", "chain", "ledger", "promise"), "passed")
    assert page.checks == passed | {"noise": "failed"}
    assert "<strong>Not private.</strong>" in page.html


def test_metrics_stand_under_their_label_and_nowhere_else(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    values = [f"{value:.4f}" for line in lines for value in line["metrics"].values()]

    page = page_of(run_files(run))
    rest = page.html
    for section in ("verdict", "rounds", "quality", "head-and-tail", "few-and-many", "traffic"):
        assert not page.section(section) or "not private: simulation only" in page.section(section)
        rest = rest.replace(page.section(section), "")

    assert len(values) >= 2 * ROUNDS
    assert all(value in page.html for value in values)
    assert not [value for value in values if value in rest]


def test_a_round_that_is_booked_and_not_published_counts_as_spent(run: Path) -> None:
    as_under_way(run, boards=ROUNDS + 1)

    page = page_of(run_files(run))

    assert page.state == "running"
    assert page.states("rounds-table") == ["made"] * ROUNDS + ["booked"]
    assert f"{ROUNDS} of {ROUNDS + 1} made" in page.section("rounds")
    assert "; 0 left" in page.section("budget")
    assert f"Board {ROUNDS} of" in page.section("board")


def test_before_a_round_is_booked_its_plan_is_told(tmp_path: Path, finished: Path) -> None:
    with Ledger.open(finished / "ledger.sqlite", read_only=True) as ledger:
        budget, plan = ledger.budget, ledger.plan
        first = [event for event in ledger.events() if not event["name"].startswith("round-")]
    run = tmp_path / "run"
    (run / "boards").mkdir(parents=True)
    for version in (0, 1):
        shutil.copy(finished / "boards" / f"board-{version:04d}.board", run / "boards")
    with Ledger.create(run / "ledger.sqlite", budget, plan=plan) as ledger:
        ledger.book_all(first)
        page = page_of(run_files(run))

    now = epsilon_of_events(first, budget.delta)
    assert page.state == "running", "the ledger is open for writing, here"
    assert f"<strong>{spent(now)} of" in page.section("budget")
    assert page.states("rounds-table") == ["made", "next", "to come"]
    assert page.states("releases-table").count("booked-release") == len(first)
    assert "planned" in page.states("releases-table")


def test_a_run_that_nobody_works_on_is_said_to_be_stopped(run: Path) -> None:
    as_under_way(run, boards=ROUNDS)
    (run / "ledger.sqlite.lock").write_text("999999999")

    assert page_of(run_files(run)).state == "stopped"


def test_a_changed_board_shows_a_broken_seal(run: Path) -> None:
    newest = sorted((run / "boards").glob("*.board"))[-1]
    content = newest.read_bytes()
    newest.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])

    page = page_of(run_files(run))

    assert page.checks["bytes"] == "failed"
    assert "The seal of the last board is broken." in page.text
    assert "Nothing of this run" in page.text


def test_a_ledger_of_another_run_shows(run: Path, finished: Path) -> None:
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        budget, plan, events = ledger.budget, ledger.plan, ledger.events()
    (run / "ledger.sqlite").unlink()
    with Ledger.create(run / "ledger.sqlite", budget, plan=plan) as other:
        other.book_all(events)

    found = page_of(run_files(run)).checks

    assert found["ledger"] == "failed"
    assert found["promise"] == "passed"


@pytest.mark.parametrize("content", [b"", b"not a ledger", b'{"event": "round", "round": NaN}\n\x00\xff'])
def test_damaged_files_are_a_state_and_no_crash(run: Path, content: bytes) -> None:
    (run / "ledger.sqlite").write_bytes(content)

    assert page_of(run_files(run)).state == "unreadable"


def test_a_line_that_makes_no_sense_ends_the_log_and_odd_numbers_are_none(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    odd = json.loads(lines[1]) | {
        "metrics": {"validation_rmse": float("nan"), "x": "<b>"},
        "seconds": float("inf"),
    }
    (run / "metrics.jsonl").write_text("\n".join([lines[0], json.dumps(odd), "{half a li"]), encoding="utf-8")

    page = page_of(run_files(run))

    assert page.state in {"stopped", "judging"}
    assert "<b>" not in page.html
    assert re.search(r'Validation RMSE \(stars\)">–<', page.section("rounds"))
    assert "nan" not in page.section("rounds")


def test_counts_of_a_fleet_s_devices_and_answers_are_not_on_the_page(run: Path) -> None:
    page = page_of(as_a_fleets(run))

    assert "<h1>films</h1>" in page.html
    of_all = {int((ROUNDS + 1) * value) for value in NOT_PUBLIC.values()}
    assert not [value for value in {*NOT_PUBLIC.values(), *of_all} if str(value) in page.html]
    assert "late" not in page.section("rounds")
    assert "Time" not in page.section("rounds")
    assert "this page contains such numbers" not in page.html


def test_looking_changes_no_file_of_the_run(run: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}

    before, files = contents(), run_files(run)
    signature = files.signature()
    for _ in range(3):
        page_of(files)

    assert contents() == before
    assert files.signature() == signature, "or it would be read again for ever"


def test_what_is_no_run_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for place in (tmp_path, tmp_path / "missing", tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="give the folder of a run"):
            run_files(place)
