"""The soak: the same week for the same seed; and it notices growth, a board that is kept back, a booking less."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fedboard.common.board_service.log.history import History
from fedboard.common.board_service.log.note_keys import NoteKey
from fedboard.common.board_service.log.notes import Kind
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.board_service.log.log import ENTRIES, KEY, BoardLog
from fedboard.server.board_service.mirror import Mirror, publish_into
from fedboard.server.board_service.signing import SigningKey, create_board_keys
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.preparing import keep_register, prepare
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.running import run_job
from fedboard.server.publication import BoardStore
from fedboard.simulations.flower import cohort_app
from fedboard.simulations.flower.cohorts import write_cohorts
from fedboard.simulations.flower.local_grid import LocalGrid

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROUNDS = 3


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def left(tmp_path: Path) -> Any:
    """What a small fleet in this process leaves behind, its boards signed and logged."""
    from chaos import people
    from fleets.chaos.checks import Left, Reader
    from fleets.deployment import FleetPlan, make_fleet

    parts = {name: people().train.rows(number * 20, number * 20 + 20) for number, name in enumerate("ab")}
    plan = FleetPlan(
        nodes=parts,
        catalogue=people().catalogue,
        task={"algorithm": "adadpals", "settings": {"rank": 2, "rounds": ROUNDS}},
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": "secure"},
        rounds={"quorum": 2},
    )
    settings = make_fleet(tmp_path, plan)
    state = StateFolder.of(settings)
    prepare(settings)
    state.make()
    keep_register(settings)
    job = Job.load(state.job)
    write_cohorts(tmp_path / "cohorts", people().train.rows(0, 40), 2)
    server = QuestionKey.read(Path(job.question_key)).public.hex
    config = {"cohorts": str(tmp_path / "cohorts"), "kernels": "numpy", "server": server}
    with LocalGrid(cohort_app.app, 2, config).running() as grid:
        run_job(grid, msgspec.structs.replace(job, nodes=None, enrolled=None))
    reader = Reader(state.run / "boards")
    reader.look()
    return Left(tmp_path, settings, tmp_path / "log.jsonl", reader)


def published(left: Any) -> Any:
    """The fleet's face as the checks see it; all boards are signed into its mirror and its log."""
    log, run = left.folder / "board-log", left.run
    NoteKey.generate("boards.example/trial", Kind.NOTE).write(log / KEY, log / "board-log.pub")
    private, _ = create_board_keys(left.folder / "keys")
    mirror = StateFolder.of(left.settings).mirror
    with BoardLog.open(log) as opened:
        publish_into(Mirror(mirror), run / "boards", key=SigningKey.read(private), run="trial", log=opened)
    from fleets.deployment import Deployment

    fleet = Deployment(left.folder, left.settings)
    return SimpleNamespace(folder=left.folder, fleet=fleet, lines=fleet.log.lines)


def found_in(left: Any, fleet: Any) -> dict[str, list[str]]:
    from fleets.chaos.checks import Left, problems
    from fleets.soak.audit import other_heads, unlogged, unpublished

    now = Left(left.folder, left.settings, left.notes, left.reader)
    history = History.parse((left.folder / "board-log" / ENTRIES).read_text())
    found = problems(now)
    found["lost_boards"] += [*unpublished(now, fleet), *unlogged(now, history)]
    found["underbooked_ledgers"] += other_heads(now, history)
    return found


@pytest.mark.slow
def test_a_booking_that_is_missing_is_found(left: Any) -> None:
    from fleets.soak.audit import drop_booking

    fleet = published(left)
    assert [text for texts in found_in(left, fleet).values() for text in texts] == []

    drop_booking(left.run)

    found = found_in(left, fleet)
    assert any("not booked" in text for text in found["underbooked_ledgers"])
    assert any("never was one" in text for text in found["underbooked_ledgers"])


@pytest.mark.slow
def test_a_board_that_is_kept_back_is_found(left: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = BoardStore.versions
    monkeypatch.setattr(BoardStore, "versions", lambda self: [v for v in versions(self) if v != 2])
    fleet = published(left)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    found = found_in(left, fleet)["lost_boards"]

    assert found == [
        "board 2 was made and is not offered to readers",
        "board 2 is not the one in the log",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_week_is_that_of_its_seed(seed: int) -> None:
    from fleets.soak.plan import KINDS, QUIET_SHARE, events

    week = events(seed, 7.0)

    assert week == events(seed, 7.0) != events(seed + 1, 7.0)
    assert Counter(event.kind for event in week) == {name: kind.times for name, kind in KINDS.items()}
    assert all(event.at <= 7.0 * QUIET_SHARE for event in week if KINDS[event.kind].ends_server)
    assert len(events(seed, 1.0)) == sum(math.ceil(kind.times / 7) for kind in KINDS.values())


def samples(part: str, megabytes: Iterator[float]) -> Any:
    from fleets.soak.memory import Memory

    memory = Memory()
    for number, held in enumerate(megabytes):
        for look in range(4):
            memory.held((1, part), part, 5.0 * number + look, number, held + 0.2 * look)
    return memory


def test_a_megabyte_a_round_is_found_and_what_settles_is_not() -> None:
    leak = samples("ServerApp", (90.0 + number for number in range(20)))
    steady = samples("ServerApp", (90.0 + 8.0 * (number > 6) + 0.01 * number for number in range(20)))

    (told,) = leak.problems()
    assert "a ServerApp grew by" in told
    assert steady.problems() == []
    assert leak.growths()[0]["grown_mb"] > 8.0


def test_files_that_grow_and_files_of_no_kind_are_found(tmp_path: Path) -> None:
    from fleets.soak.files import Files, Size

    size = Size(boards=10, releases=20, devices=3, entries=12, starts=9, planned=150)
    (tmp_path / "state/runs/trial").mkdir(parents=True)
    (tmp_path / "state/runs/trial/rounds.jsonl").write_bytes(bytes(9_000))
    files = Files(tmp_path)
    files.look(size)
    assert files.problems() == []

    (tmp_path / "state/runs/trial/rounds.jsonl").write_bytes(bytes(90_000))
    (tmp_path / "state/runs/trial/grows.log").write_bytes(bytes(1))
    files.look(size)

    assert [told.partition(":")[0] for told in files.problems()] == [
        "log of rounds",
        "a file of no stated kind",
    ]
