"""Sweeps: the grid, the cells as runs of their own, failures that stay alone, resumption."""

import json
import os
import signal
import statistics
from pathlib import Path

import msgspec
import pytest

from fedboard.common.errors import InputError, WorkerDiedError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.sweeps import cells as sweep_cells
from fedboard.simulations.sweeps.sweep import Grid, SweepRecord, plan_cells, read_record, sweep

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]

TINY = {
    "data": {"synthetic": {"n_users": 200, "n_items": 40, "mean_ratings_per_user": 12.0}},
    "settings": {"rank": 2, "rounds": 2},
    "run": {"kernels": "numpy", "workers": 2, "evaluate_rounds": False},
}


def record(**axes: object) -> SweepRecord:
    grid = msgspec.structs.replace(Grid(algorithms=("adadpals",), epsilons=(2.0,)), **axes)
    return SweepRecord(grid=grid, config=parse_config(TINY))


def names(swept: SweepRecord) -> list[str]:
    return [cell.name for cell in plan_cells(swept)]


def test_every_cell_is_run_on_each_fold_and_the_table_says_so(tmp_path: Path) -> None:
    swept = record(algorithms=("als", "item-mean-private"), folds=3)

    result = sweep(swept, tmp_path / "sweep")

    assert names(swept) == [f"{n}-fold{f}" for f in range(3) for n in ("als", "item-mean-private-eps2-seed0")]
    assert [cell.cell.config.split.fold for cell in result.outcomes] == [0, 0, 1, 1, 2, 2]
    assert {cell.cell.config.split.folds for cell in result.outcomes} == {3}
    of_als = [cell.final["metrics"]["test_rmse"] for cell in result.outcomes[::2] if cell.final is not None]
    page = (tmp_path / "sweep" / "frontier.md").read_text()
    assert len(set(of_als)) == 3
    assert f"{statistics.fmean(of_als):.4f} ± {statistics.stdev(of_als):.4f}" in page
    assert "mean ± standard deviation over up to 3 folds" in page


def test_folds_that_cannot_be_are_refused(tmp_path: Path) -> None:
    timed = msgspec.structs.replace(record(folds=3), config=parse_config(TINY | {"split": {"leave_last": 1}}))

    with pytest.raises(InputError, match=r"split\.folds must be >= 2, got 1"):
        plan_cells(record(folds=1))
    with pytest.raises(InputError, match="--folds is for a split by coins"):
        plan_cells(timed)
    with pytest.raises(InputError, match="give the data by a path, not loaded already"):
        sweep(record(folds=3), tmp_path / "sweep", problem=load_problem(record().config))
    assert not (tmp_path / "sweep").exists()


def test_every_combination_is_a_cell_and_models_without_privacy_are_one_each() -> None:
    grid = {"algorithms": ("als", "adadpals"), "epsilons": (1.0, 0.5), "seeds": (3, 4)}

    cells = plan_cells(record(**grid))

    assert [cell.name for cell in cells] == [
        "als",
        *("adadpals-eps1-seed3", "adadpals-eps1-seed4", "adadpals-eps0.5-seed3", "adadpals-eps0.5-seed4"),
    ]
    assert [(cell.config.privacy.epsilon, cell.config.seed) for cell in cells[1:]] == [
        *((1.0, 3), (1.0, 4), (0.5, 3), (0.5, 4))
    ]
    assert {cell.config.run.workers for cell in cells} == {1}
    assert cells[0].config.settings == {"rank": 2}
    assert len({msgspec.json.encode(cell.config.split) for cell in cells}) == 1


def test_floors_run_as_shipped_at_every_epsilon_and_never_twice() -> None:
    swept = record(algorithms=("bias-private",), epsilons=(1.0, 5.0), floors=True)
    swept = msgspec.structs.replace(
        swept, config=msgspec.structs.replace(swept.config, settings={"user_ridge": 3.0})
    )

    cells = {cell.name: cell.config for cell in plan_cells(swept)}

    assert list(cells) == [
        *("bias-private-eps1-seed0", "bias-private-eps5-seed0"),
        *("item-mean-private-eps1-seed0", "item-mean-private-eps5-seed0"),
    ]
    assert cells["bias-private-eps1-seed0"].settings == {"user_ridge": 3.0}
    assert cells["item-mean-private-eps5-seed0"].settings == {}
    implicit = parse_config({**TINY, "feedback": "implicit"})
    lists = SweepRecord(grid=Grid(algorithms=("popularity",), epsilons=(2.0,), floors=True), config=implicit)
    assert names(lists) == ["popularity", "popularity-private-eps2-seed0"]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"algorithms": ("magic",)}, "algorithms must be among adadpals, .*, got 'magic'"),
        ({"algorithms": ("popularity",)}, "got 'popularity'"),
        ({"epsilons": (1.0, 0.0)}, "epsilons must be finite and > 0, got 1, 0"),
        ({"epsilons": (float("inf"),)}, "epsilons must be finite and > 0, got inf"),
        ({"seeds": ()}, "at least one algorithm, one epsilon and one seed"),
        ({"seeds": (-1,)}, "seeds must be >= 0"),
    ],
)
def test_a_grid_that_cannot_be_run_is_refused(axes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        sweep(record(**axes), tmp_path / "sweep")

    assert not (tmp_path / "sweep").exists()


def test_every_private_cell_is_run_under_each_protocol_with_the_settings_that_it_has(tmp_path: Path) -> None:
    swept = record(algorithms=("als", "residual"), protocols=("trusted", "two-server"))
    run = {**TINY["run"], "clients": 20, "protocol_settings": {"most_items": 9}}
    swept = msgspec.structs.replace(swept, config=parse_config(TINY | {"run": run}))

    result = sweep(swept, tmp_path / "sweep")

    assert names(swept) == ["als", "residual-eps2-seed0-trusted", "residual-eps2-seed0-two-server"]
    assert not result.failed
    _, plain, halved = (cell.config.run for cell in plan_cells(swept))
    assert (plain.protocol, plain.clients, plain.protocol_settings) == ("trusted", None, {})
    assert (halved.protocol, halved.clients) == ("two-server", 20)
    assert halved.protocol_settings == {"most_items": 9}
    frontier = json.loads((tmp_path / "sweep" / "frontier.json").read_text())
    assert [entry["algorithm"] for entry in frontier["results"]] == [
        *("als", "residual, trusted", "residual, two-server")
    ]
    with pytest.raises(InputError, match="'shuffled'"):
        plan_cells(record(protocols=("shuffled",)))


def test_a_sweep_writes_cells_and_a_frontier(tmp_path: Path) -> None:
    swept = record(algorithms=("adadpals", "item-mean"), seeds=(0, 1))

    result = sweep(swept, tmp_path / "sweep")

    assert not result.failed
    assert {path.name for path in result.frontier} >= {"frontier.md", "frontier.json", "frontier.html"}
    frontier = json.loads((tmp_path / "sweep" / "frontier.json").read_text())
    assert [(entry["algorithm"], entry["epsilon"]) for entry in frontier["results"]] == [
        *(("adadpals", 2.0), ("adadpals", 2.0), ("item-mean", None))
    ]
    for name in names(swept):
        assert (tmp_path / "sweep" / "cells" / name / "metrics.jsonl").exists()
    assert read_record(tmp_path / "sweep") == swept


def test_a_failed_cell_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = sweep_cells.simulate

    def failing(config: SimulationConfig, *arguments: object, **keywords: object) -> object:
        if config.seed == 1:
            raise ZeroDivisionError("a bug")
        return original(config, *arguments, **keywords)  # type: ignore[arg-type]

    swept = record(seeds=(0, 1, 2))
    with monkeypatch.context() as patched:
        patched.setattr(sweep_cells, "simulate", failing)
        result = sweep(swept, tmp_path / "sweep")
    traces = (tmp_path / "sweep" / "failures.txt").read_text()
    again = sweep(swept, tmp_path / "sweep", resume=True)

    assert [(outcome.cell.name, outcome.error) for outcome in result.failed] == [
        ("adadpals-eps2-seed1", "ZeroDivisionError: a bug")
    ]
    assert "in failing" in traces
    assert (tmp_path / "sweep" / "frontier.md").exists()
    assert [outcome.was_finished for outcome in again.outcomes] == [True, False, True]
    assert not again.failed
    assert not (tmp_path / "sweep" / "failures.txt").exists()


def test_a_grid_may_grow_but_its_cells_may_not_change(tmp_path: Path) -> None:
    sweep(record(), tmp_path / "sweep")
    grown = record(epsilons=(2.0, 4.0))
    changed = msgspec.structs.replace(
        grown, config=parse_config({**TINY, "settings": {"rank": 3, "rounds": 1}})
    )

    first = sweep(grown, tmp_path / "sweep", resume=True)
    second = sweep(changed, tmp_path / "sweep", resume=True)

    assert [outcome.was_finished for outcome in first.outcomes] == [True, False]
    assert "was started with another 'settings'" in str(second.failed[0].error)


def killing(config: SimulationConfig, *arguments: object, **keywords: object) -> object:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_stops_the_sweep_and_what_had_ended_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = record(seeds=(0, 1))
    first, _ = plan_cells(swept)
    sweep_cells.run_cell(first, tmp_path / "sweep" / "cells")

    with monkeypatch.context() as patched:
        patched.setattr(sweep_cells, "run_cell", killing)
        with pytest.raises(WorkerDiedError, match=r"signal 9.*--resume"):
            list(sweep_cells.run_cells(plan_cells(swept), tmp_path / "sweep" / "cells", jobs=2))
    again = list(sweep_cells.run_cells(plan_cells(swept), tmp_path / "sweep" / "cells", jobs=2))

    assert {outcome.cell.name: outcome.was_finished for outcome in again} == {
        "adadpals-eps2-seed0": True,
        "adadpals-eps2-seed1": False,
    }
