"""Progress on stderr, bars on a terminal and lines elsewhere; what rounds are called wherever they are shown."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs import progress
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.directory import round_names, rounds_told

ROUNDS = ("preparation", "biases", "round 1", "round 2")
LINE = {
    "round": 2,
    "stage": "round 1",
    "seconds": 2.04,
    "epsilon_spent": 1.5,
    "metrics": {"validation_mae": 0.7, "validation_rmse": 0.91},
}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem(parse_config({"data": {"synthetic": {"n_users": 50, "n_items": 20}}}))


def test_a_log_gets_one_plain_line_per_round(problem: Problem, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.listening(parse_config({})) as listener:
        listener.planned(problem, ROUNDS)
        listener.progress("clients", 1, 2)
        listener.round_finished(LINE)

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[0].endswith("; preparation, biases and 2 rounds within epsilon 5")
    assert captured.err.splitlines()[1:] == [
        "round 1 of 2: 2.0 s, epsilon 1.5 of 5 spent, validation_rmse 0.9100"
    ]


@pytest.fixture
def bars() -> Iterator[Progress]:
    columns = TextColumn("{task.description}|{task.completed}|{task.total}|{task.visible}")
    with Progress(columns, console=Console(file=io.StringIO()), auto_refresh=False) as shown:
        yield shown


def test_a_terminal_gets_rounds_phase_and_budget(problem: Problem, bars: Progress) -> None:
    listener = progress.LiveListener(bars, 5.0)
    rounds, phase = bars.tasks

    listener.planned(problem, ROUNDS)
    listener.progress("clients", 2, 4)
    listener.progress("items", 1, 8)
    listener.round_finished(LINE)

    assert (rounds.description, rounds.completed, rounds.total) == ("synthetic", 1, 4)
    assert isinstance(bars.console.file, io.StringIO)
    told = bars.console.file.getvalue().splitlines()
    assert "round 1 of 2: 2.0 s, epsilon 1.5 of 5 spent, validation_rmse 0.9100" in told
    assert (phase.description, phase.completed, phase.total) == ("items: sum, noise and solve", 1, 8)
    assert phase.visible


@pytest.mark.parametrize(
    ("algorithm", "settings", "told"),
    [
        ("residual", {"rounds": 3}, "preparation, biases and 3 rounds"),
        (
            "residual",
            {"rounds": 3, "start": "spectral", "clip_quantile": 0.5},
            "preparation, biases, pairs and 3 rounds",
        ),
        ("adadpals", {"rounds": 1}, "preparation and 1 round"),
        ("adadpsgd", {"steps": 2}, "preparation and 2 steps"),
        ("langevin", {"steps": 2}, "preparation and 2 steps"),
    ],
)
def test_a_plan_tells_the_rounds_that_the_settings_ask_for(
    algorithm: str, settings: dict[str, Any], told: str
) -> None:
    config = parse_config({"algorithm": algorithm, "settings": settings})
    plan = build_task(config, rating_range=(1.0, 5.0), backend="numpy").task.plan()

    names = round_names(plan)

    assert rounds_told(names) == told
    assert len(names) == len(plan)
    for name, requests in zip(names, plan, strict=True):
        of_round = {request.release.name.split("/")[0] for request in requests}
        assert name == "preparation" or name == "biases" or of_round == {name.replace(" ", "-")}
