"""Comparing protocols: what is measured, what is extrapolated, and what the record says."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import PROTOCOL_NAMES, card_of, sized_protocol
from fedboard.common.protocols.secure_sum.card import unmasked
from fedboard.common.protocols.secure_sum.masking.neighbours import neighbourhood
from fedboard.common.protocols.shared.costs import SessionSize
from fedboard.simulations.comparing.compare import Comparison, compare
from fedboard.simulations.comparing.costs import carried, fit_costs
from fedboard.simulations.comparing.measuring import FleetSize, measure_costs
from fedboard.simulations.comparing.probes import whole_session
from fedboard.simulations.comparing.workload import Workload, workload_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.sessions.costs import client_costs
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
SIZE = SessionSize(clients=30, dropped=0, neighbours=10, numbers=500, ratings=12.0, width=3)


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """One item round of a tiny board."""
    config, run = parse_config(RAW), tmp_path_factory.mktemp("workload") / "run"
    problem = load_problem(config)
    simulate(config, run, problem=problem, report=False)
    return workload_of(config, RunDirectory(run), problem, users_per_client=1, clients=3)


def sizes() -> list[SessionSize]:
    """Sessions that tell all terms apart."""
    return [
        dataclasses.replace(SIZE, clients=n, dropped=x, neighbours=k, numbers=p)
        for n, x, k, p in (
            *((6, 0, 5, 500), (18, 0, 9, 500), (18, 4, 9, 500), (54, 0, 26, 500), (54, 11, 26, 500)),
            *((54, 11, 26, 3), (54, 0, 12, 3), (80, 16, 70, 3)),
        )
    ]


def test_the_fit_finds_the_rates_that_made_the_seconds() -> None:
    rates = {
        "session": 1e-3,
        "client": 2e-4,
        "relayed": 5e-5,
        "reconstructed": 1e-7,
        "agreed": 4e-5,
        "added": 1e-9,
        "removed": 3e-9,
    }
    seconds = [sum(rates[name] * amount for name, amount in unmasked(size).items()) for size in sizes()]
    fleet = dataclasses.replace(SIZE, clients=72_480, dropped=14_496, neighbours=306)

    model = fit_costs(unmasked, sizes(), seconds)

    expected = sum(rates[name] * amount for name, amount in unmasked(fleet).items())
    assert model.cost(fleet) == pytest.approx(expected, rel=1e-3)
    assert model.worst_error < 1e-6


def test_rates_are_never_negative() -> None:
    model = fit_costs(unmasked, sizes(), [1.0 / size.clients for size in sizes()])

    assert min(model.rates.values()) >= 0
    assert model.worst_error > 0.1  # and the record says that it does not fit


def test_bytes_extrapolated_over_neighbours_are_those_of_a_larger_session(workload: Workload) -> None:
    settings = {"dropout": 0.2, "colluding": 0.5}  # such that all are neighbours

    def up(clients: int) -> float:
        protocol = sized_protocol("secure-sum", clients=clients, users=clients, settings=settings)
        session = whole_session(protocol, workload, clients=clients, dropped=0)
        return client_costs(session.steps).up

    known = [dataclasses.replace(SIZE, neighbours=n - 1, numbers=workload.numbers) for n in (4, 8, 12)]
    model = fit_costs(carried, known, [up(n) for n in (4, 8, 12)])

    assert model.cost(dataclasses.replace(known[0], neighbours=23)) == pytest.approx(up(24), rel=0.01)


@pytest.mark.parametrize("dropout", [0.1, 0.2])
def test_a_crowd_has_the_neighbourhoods_of_the_fleet(dropout: float) -> None:
    fleet = neighbourhood(20_000, dropout=dropout, colluding=0.1)
    crowd = card_of("secure-sum").crowd({"dropout": dropout, "colluding": 0.1}, 20_000, 400)
    few = neighbourhood(crowd.clients, **crowd.settings)

    assert crowd.clients <= fleet.size + 8
    assert few.size == fleet.size
    assert few.needed == pytest.approx(fleet.needed, abs=2)
    assert neighbourhood(crowd.clients, dropout=dropout, colluding=0.1).size < 0.6 * fleet.size  # the control


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_protocol_is_measured_over_its_own_messages(name: str, workload: Workload) -> None:
    fleet = FleetSize(clients=6, users=60, dropout=0.0)

    costs = measure_costs(name, workload, fleet, {})

    # Of clients that nobody vouches for; those that are vouched for confirm in a step of its own.
    assert str(costs.client.steps) == card_of(name).steps.partition(" or ")[0]
    assert costs.server_seconds > 0
    assert costs.client.seconds > 0
    assert not costs.server_extrapolated
    assert not costs.client_extrapolated
    if name in ("local", "secure-sum", "distributed-dp"):
        assert 4 * workload.numbers < costs.client.up < 4 * workload.numbers + 4000


def test_larger_fleets_are_extrapolated_and_say_so(workload: Workload) -> None:
    fleet = FleetSize(clients=5000, users=5000, dropout=0.2)

    costs = measure_costs("local", workload, fleet, {})

    assert costs.server_extrapolated
    assert not costs.client_extrapolated
    largest = max(session["clients"] for session in costs.sessions)
    assert costs.server_seconds > max(session["server_seconds"] for session in costs.sessions)
    assert largest < 5000


def test_neighbours_of_the_fleet_are_there_when_a_client_is_timed(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedboard.simulations.comparing.measuring._MOST", 12)
    fleet = FleetSize(clients=120, users=120, dropout=0.05)
    wanted = neighbourhood(120, dropout=0.05, colluding=0.1).size

    costs = measure_costs("secure-sum", workload, fleet, {})

    assert costs.neighbours == wanted
    assert not costs.client_extrapolated
    assert max(session["neighbours"] for session in costs.sessions) >= wanted
    assert max(session["clients"] for session in costs.sessions) < 120


def small(**changes: Any) -> Comparison:
    """A comparison of seconds."""
    return Comparison(
        config=parse_config(RAW), protocols=("trusted", "local"), epsilons=(1.0, 5.0), **changes
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
        assert line["measured"].keys() == line["extrapolated"].keys()
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
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Comparison(config=parse_config(RAW), **changes)
