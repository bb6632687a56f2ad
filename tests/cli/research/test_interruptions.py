"""A run that was killed anywhere goes on to the very board that it would have made undisturbed."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from fedboard.common.errors import WorkerDiedError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore
from fedboard.simulations.engine.pool import WorkerPool
from tests.cli.conftest import Command
from tests.cli.research.killing import killed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]


def digest(run: Path) -> str:
    return BoardStore(run / "boards").latest().digest


@pytest.mark.parametrize(
    ("moment", "count"),
    [
        ("after:config", 1),  # nothing but the configuration is there
        pytest.param("after:book", 1, marks=pytest.mark.thorough),  # the preparation is paid for
        ("after:book", 2),  # the biases are paid for
        ("after:publish", 3),  # the board is there, its record is not
        ("before:report", 1),  # only the report is missing
    ],
)
def test_a_killed_run_goes_on_to_the_same_board(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path, moment: str, count: int
) -> None:
    out = tmp_path / "run"

    ended = killed("SIGKILL", moment, count, "simulate", *tiny, "--out", out)
    resumed = fedboard("simulate", "--out", out, "--resume", "--json")

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert resumed.exit_code == 0, resumed.stderr
    assert json.loads(resumed.stdout)["board_digest"] == digest(finished)
    assert fedboard("certificate", "verify", out, "--simulation").exit_code == 0
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [record.get("round") for record in records] == [0, 1, 2, 3, None]
    assert not list(out.rglob("*.part"))


def test_a_run_killed_while_it_made_its_directory_can_be_started_anew(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "run"

    ended = killed("SIGKILL", "before:config", 1, "simulate", *tiny, "--no-baselines", "--out", out)
    started = fedboard("simulate", *tiny, "--no-baselines", "--out", out)

    assert ended.returncode == -signal.SIGKILL
    assert started.exit_code == 0, started.stderr


@pytest.mark.parametrize("polite", ["SIGINT", "SIGTERM"])
def test_ctrl_c_leaves_a_run_that_can_be_resumed_and_says_how(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path, polite: str
) -> None:
    out = tmp_path / "run"
    flags = ("--workers", "2", "--no-baselines", "--out", out)

    ended = killed(polite, "before:publish", 3, "simulate", *tiny, *flags)
    resumed = fedboard("simulate", "--out", out, "--resume", "--json")

    assert ended.returncode == 130
    last = ended.stderr.splitlines()[-1]
    assert last == f"fedboard: interrupted; go on with: fedboard simulate --out {out} --resume"
    assert json.loads(resumed.stdout)["board_digest"] == digest(finished)


def test_lost_secure_noise_is_never_drawn_again(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    flags = ("--noise", "secure", "--no-baselines", "--out", out)

    ended = killed("SIGKILL", "after:book", 2, "simulate", *tiny, *flags)
    resumed = fedboard("simulate", "--out", out, "--resume")

    assert ended.returncode == -signal.SIGKILL
    assert resumed.exit_code == 0, resumed.stderr
    store = BoardStore(out / "boards")
    assert store.versions() == [0, 1, 2, 3, 4]
    assert fedboard("certificate", "verify", out).exit_code == 0


@pytest.mark.parametrize(
    "moment", ["before:join", pytest.param("after:join", marks=pytest.mark.thorough), "after:account"]
)
def test_a_run_killed_between_the_population_s_ledger_and_its_own_catches_up(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path, moment: str
) -> None:
    account, out = tmp_path / "population.ledger", tmp_path / "run"
    assert not fedboard("ledger", "create", account, "--epsilon", "6", "--delta", "1e-5").exit_code
    flags = ("--population", account, "--no-baselines", "--out", out)

    ended = killed("SIGKILL", moment, 2 if moment == "after:account" else 1, "simulate", *tiny, *flags)
    with Population.open(account, read_only=True) as population:
        epsilon_then = population.cost(reserved=False)
    with Ledger.open(out / "ledger.sqlite", read_only=True) as ledger:
        assert ledger.spent().epsilon <= epsilon_then
    resumed = fedboard("simulate", "--out", out, "--resume", "--json")

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert resumed.exit_code == 0, resumed.stderr
    assert json.loads(resumed.stdout)["board_digest"] == digest(finished)
    assert fedboard("certificate", "verify", out, "--simulation").exit_code == 0
    assert fedboard("certificate", "verify", account, "--simulation").exit_code == 0
    with Population.open(account, read_only=True) as population:
        assert population.cost(reserved=True) == pytest.approx(5.0, rel=1e-9)


def test_a_copied_run_is_refused_where_the_account_of_its_people_tells(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    account, out, copy = tmp_path / "population.ledger", tmp_path / "run", tmp_path / "copy"
    assert not fedboard("ledger", "create", account, "--epsilon", "6", "--delta", "1e-5").exit_code
    flags = ("--noise", "secure", "--no-baselines", "--population", account, "--out", out)

    ended = killed("SIGKILL", "after:publish", 3, "simulate", *tiny, *flags)
    shutil.copytree(out, copy)
    first, second = (fedboard("simulate", "--out", place, "--resume") for place in (out, copy))

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (first.exit_code, "copy" in first.stderr) == (0, False), first.stderr
    assert second.exit_code == 3
    assert f"{copy}: this folder is a copy or older than the account of its users" in second.stderr
    assert len(BoardStore(copy / "boards").versions()) < len(BoardStore(out / "boards").versions())


def test_without_an_account_a_resumed_run_says_what_a_copy_means(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, secret: Path
) -> None:
    said = "Resume one copy of this folder at most: each draws new noise for the same users"

    told = {run: fedboard("simulate", "--out", run, "--resume").stderr for run in (finished, secret)}

    assert said in told[secret]
    assert "privacy.population" in told[secret]
    assert said not in told[finished]
    assert "copies" in fedboard("simulate", "--help-all").stdout


@pytest.mark.parametrize("call", [1, 4])
def test_a_killed_worker_stops_the_run_and_a_resumed_one_ends_the_same(
    fedboard: Command,
    tiny: tuple[str, ...],
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: int,
) -> None:
    out, original, calls = tmp_path / "run", WorkerPool.run, 0

    def with_a_death(pool: WorkerPool, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(pool.process_ids[0], signal.SIGKILL)
        return original(pool, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(WorkerPool, "run", with_a_death)
        ended = fedboard("simulate", *tiny, "--workers", "2", "--no-baselines", "--out", out)
    resumed = fedboard("simulate", "--out", out, "--resume", "--json", "--workers", "1")

    assert ended.exit_code == WorkerDiedError.exit_code == 4, ended.stderr
    assert "was ended by signal 9" in ended.stderr.splitlines()[-1]
    assert "go on with --resume" in ended.stderr.splitlines()[-1]
    assert json.loads(resumed.stdout)["board_digest"] == digest(finished)


def test_a_sweep_goes_on_after_ctrl_c(fedboard: Command, tiny: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    flags = ("--algorithms", "adadpals,item-mean", "--epsilon", "2", "--seeds", "0,1", "--out", out)

    ended = killed("SIGINT", "before:publish", 7, "sweep", *tiny, *flags)
    first = (out / "cells" / "adadpals-eps2-seed0" / "report.html").stat().st_mtime_ns
    resumed = fedboard("sweep", "--out", out, "--resume", "--json")

    assert ended.returncode == 130
    assert ended.stderr.splitlines()[-1].endswith(f"go on with: fedboard sweep --out {out} --resume")
    assert resumed.exit_code == 0, resumed.stderr
    assert [cell["error"] for cell in json.loads(resumed.stdout)["cells"]] == [None, None, None]
    assert (out / "cells" / "adadpals-eps2-seed0" / "report.html").stat().st_mtime_ns == first
    assert (out / "frontier.html").exists()
