"""Comparing protocols: what is measured, at which sizes, and what the record says."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import PROTOCOL_NAMES, card_of
from fedboard.common.protocols.secure_sum.neighbours import neighbourhood
from fedboard.simulations.comparing.compare import Comparison, compare
from fedboard.simulations.comparing.measuring import USUAL_SIZES, measure, sizes_within
from fedboard.simulations.comparing.workload import Workload, workload_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.simulate import simulate

pytestmark = pytest.mark.slow

RAW: dict[str, Any] = {
    "algorithm": "residual",
    "data": {
        "source": "synthetic",
        "synthetic": {"n_users": 60, "n_items": 40, "mean_ratings_per_user": 15},
    },
    "settings": {"rank": 2, "rounds": 1},
    "run": {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"},
}


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """One item round of a tiny board."""
    config, run = parse_config(RAW), tmp_path_factory.mktemp("workload") / "run"
    problem = load_problem(config)
    simulate(config, run, problem=problem, report=False)
    return workload_of(config, RunDirectory(run), problem, users_per_client=1, clients=3)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_protocol_is_measured_over_its_own_messages(name: str, workload: Workload) -> None:
    ran = measure(name, workload, clients=6, users_per_client=10, dropout=0.0, settings={})

    # Of clients that nobody vouches for; those that are vouched for confirm in a step of its own.
    assert str(ran.client.steps) == card_of(name).steps.partition(" or ")[0]
    assert ran.server_seconds > 0
    assert ran.client.seconds > 0
    assert ran.clients == 6
    assert ran.dropped == 0
    if name in ("local", "secure-sum", "distributed-dp"):
        assert 4 * workload.numbers < ran.client.up < 4 * workload.numbers + 4000


def test_sessions_bear_the_clients_that_vanish_and_have_neighbours_of_their_own(workload: Workload) -> None:
    ran = measure("secure-sum", workload, clients=40, users_per_client=1, dropout=0.2, settings={})

    assert ran.dropped == 8
    assert ran.neighbours == neighbourhood(40, dropout=0.2, colluding=0.1).size
    assert ran.protocol.parameters["survivors"] <= 32


def test_sizes_that_do_not_fit_are_left_out_or_refused() -> None:
    assert sizes_within(None, 1000) == USUAL_SIZES
    assert sizes_within(None, 5_000_000) == (10, 40)
    assert sizes_within(None, 100_000_000) == (2,)
    assert sizes_within((40, 7), 1000) == (7, 40)
    with pytest.raises(InputError, match="at most 53 clients"):
        sizes_within((7, 54), 5_000_000)


def small(**changes: Any) -> Comparison:
    """A comparison of seconds."""
    return Comparison(
        config=parse_config(RAW),
        protocols=("trusted", "local"),
        epsilons=(1.0, 5.0),
        sessions=(6, 12),
        **changes,
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """A finished comparison, and its record; without the reports of its runs, which take longer than they do."""

    def written(run: Path) -> Path:
        (run / "report.html").write_text("<p>left out")
        return run / "report.html"

    out = tmp_path_factory.mktemp("compared") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedboard.simulations.report.write_report", written)
        return out, compare(small(clients=30), out, lambda phase, done, total: None)


def test_the_record_has_every_number_of_the_contract(compared: tuple[Path, Mapping[str, Any]]) -> None:
    out, told = compared
    record = json.loads((out / "comparison.json").read_text())

    assert record == json.loads(json.dumps(told))
    for name in ("trusted", "local"):
        line = record["protocols"][name]
        for key in ("bytes_up_per_user", "bytes_down_per_user", "client_seconds", "server_seconds", "rmse"):
            assert isinstance(line[key], float)
            assert line[key] > 0
        assert line["rmse"] == line["rmse_by_epsilon"]["5"]
        assert set(line["rmse_by_epsilon"]) == {"1", "5"}
        assert [session["clients"] for session in line["sessions"]] == [6, 12]
        assert [session["dropped"] for session in line["sessions"]] == [1, 2]
        assert line["server_seconds"] == line["sessions"][-1]["server_seconds"]
        assert line["trust"]["privacy_relies_on"]
    assert record["algorithms"]["residual"]["protocols"] == record["protocols"]
    assert record["settings"]["dropout"] == 0.2
    assert record["versions"]["fedboard"]


def test_bytes_are_each_users_share_and_hold_the_board(compared: tuple[Path, Mapping[str, Any]]) -> None:
    _, record = compared
    of_algorithm = record["algorithms"]["residual"]

    assert of_algorithm["clients"] == 30
    assert of_algorithm["users"] == 60
    down = record["protocols"]["trusted"]["bytes_down_per_user"]
    assert of_algorithm["board_bytes"] / 2 < down < of_algorithm["board_bytes"] / 2 + 500


def test_an_interrupted_comparison_goes_on_and_another_is_refused(
    compared: tuple[Path, Mapping[str, Any]],
) -> None:
    out, record = compared
    board = next((out / "cells").glob("residual-local-eps5/boards/*.board"))
    before = board.stat().st_mtime_ns

    again = compare(small(clients=30), out, lambda phase, done, total: None)

    assert board.stat().st_mtime_ns == before
    assert again["protocols"]["local"]["rmse"] == record["protocols"]["local"]["rmse"]
    with pytest.raises(InputError, match="in use"):
        compare(small(clients=20), out, lambda phase, done, total: None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dropout": 1.0}, "dropout"),
        ({"protocols": ("nobody",)}, "nobody"),
        ({"epsilons": (0.0,)}, "epsilons"),
        ({"sessions": ()}, "sessions"),
        ({"sessions": (0, 4)}, "sessions"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Comparison(config=parse_config(RAW), **changes)
