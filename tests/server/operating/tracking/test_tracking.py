"""What a tracker is told is booked, as the ledger shows, or labelled; nothing else passes the gate."""

import importlib.util
import json
import math
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from fedboard.cli.live_page import tracking
from fedboard.cli.main import commands
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.operating.live.run_files import run_files
from fedboard.server.operating.live.run_source import RunSource
from fedboard.server.operating.tracking.following import Follower
from fedboard.server.operating.tracking.gate import Gate
from fedboard.server.operating.tracking.numbers import Number, Standing, numbers_of
from fedboard.server.operating.tracking.sinks import SINKS, About, open_sink, require_installed
from fedboard.simulations.config import parse_config
from fedboard.simulations.judging.live_numbers import simulation_numbers
from fedboard.simulations.simulate import simulate

pytestmark = pytest.mark.slow

ROUNDS = 2
LABEL = "not_private_simulation_only/"
BOOKED = (("epsilon_spent", 3), ("epsilon_left", 3))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation that is over."""
    folder = tmp_path_factory.mktemp("tracked") / "run"
    config = {
        "algorithm": "adadpals",
        "data": {"synthetic": {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}},
        "settings": {"rank": 2, "rounds": ROUNDS},
        "run": {"baselines": False, "kernels": "numpy"},
    }
    simulate(parse_config(config), folder, report=False)
    return folder


def source_of(run: Path, *, simulated: bool = True) -> RunSource:
    extra = simulation_numbers if simulated else None
    return RunSource(files=run_files(run), for_operator=True, extra=extra)


def gate_of(run: Path, *, simulation: bool = True) -> Gate:
    gate = Gate(run / "ledger.sqlite", simulation=simulation)
    gate.read()
    return gate


class Kept:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, int], float] = {}
        self.about: About | None = None
        self.steps: list[int] = []
        self.closed = False

    def open(self, about: About) -> "Kept":
        self.about = about
        return self

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.steps.append(step)
        self.told |= {(name, step): value for name, value in values.items()}

    def close(self) -> None:
        self.closed = True


def followed(run: Path, *, simulated: bool = True) -> tuple[Kept, list[str]]:
    kept, said = Kept(), list[str]()
    with Follower(source_of(run, simulated=simulated), [kept.open], say=said.append):
        pass
    return kept, said


def spent_after(run: Path) -> list[float]:
    """Epsilon after each round, from the ledger alone."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    names = [set(line["releases"]) for line in lines if "releases" in line]
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        events, delta = ledger.events(), ledger.budget.delta
    behind = [set().union(*names[: k + 1]) for k in range(len(names))]
    return [epsilon_of_events([one for one in events if one["name"] in some], delta) for some in behind]


def test_a_tracker_is_told_what_is_booked_and_metrics_under_their_label(finished: Path) -> None:
    kept, said = followed(finished)

    assert said == []
    assert kept.closed
    assert kept.steps == sorted(kept.steps)
    spent = [kept.told["epsilon_spent", step] for step in range(ROUNDS + 1)]
    assert spent == pytest.approx(spent_after(finished), rel=1e-12)
    assert kept.told["epsilon_left", ROUNDS] == pytest.approx(0.0, abs=1e-9)
    metrics = {name for name, _ in kept.told if "rmse" in name}
    assert metrics == {f"{LABEL}validation_rmse", f"{LABEL}final/this_run/test_rmse"}
    assert kept.about is not None
    assert kept.about.settings["noise"] == "simulation"


def test_every_number_of_a_sound_run_is_entitled(finished: Path) -> None:
    gate, numbers = gate_of(finished), list(numbers_of(source_of(finished).read()))

    for number in numbers:
        gate.require(number)
    assert {number.standing for number in numbers} == set(Standing)
    assert len({(number.label, number.step) for number in numbers}) == len(numbers), (
        "none takes another's place"
    )


def test_a_number_that_is_neither_booked_nor_labelled_is_refused(finished: Path) -> None:
    gate = gate_of(finished)
    booked = next(one for one in numbers_of(source_of(finished).read()) if one.name == "epsilon_spent")
    wrong = [
        replace(booked, standing=None),
        replace(booked, value=booked.value * (1 + 1e-6)),
        replace(booked, value=booked.value / 2),
        replace(booked, value=math.nan),
        replace(booked, releases=()),
        replace(booked, releases=(*booked.releases, "made-up")),
        replace(booked, releases=booked.releases[:1]),
        replace(booked, name="answers", value=17.0),
        replace(booked, name="validation_rmse", value=0.9),
        replace(booked, name="noise_multiplier/counts", value=1.0),
    ]

    for number in wrong:
        with pytest.raises(
            PrivacyError, match=rf"{number.name} at round {number.step} is not tracked"
        ) as refused:
            gate.require(number)
        assert str(number.value) not in str(refused.value)


def test_the_label_is_for_simulations_alone(finished: Path) -> None:
    number = Number(name="rmse", value=0.9, step=1, standing=Standing.SIMULATION)

    gate_of(finished).require(number)

    assert number.label == f"{LABEL}rmse"
    with pytest.raises(PrivacyError, match="neither booked nor labelled"):
        gate_of(finished, simulation=False).require(number)


def test_a_log_that_says_less_than_the_ledger_is_not_believed(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    lines[1]["epsilon_spent"] /= 2
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    kept, said = followed(run)

    assert [(name, step) for name, step in kept.told if name == "epsilon_spent"] == [
        ("epsilon_spent", 0),
        ("epsilon_spent", 2),
    ]
    assert len(said) == 2
    assert "epsilon_spent at round 1 is not tracked" in said[0]


def test_of_a_fleet_neither_answers_nor_metrics_are_told(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rounds = [line | {"answers": 17_031, "refused": {"late": 17_033}} for line in lines if "round" in line]
    (run / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds), encoding="utf-8")
    for name in ("metrics.jsonl", "config.json"):
        (run / name).unlink()

    kept, said = followed(run, simulated=False)

    assert said == []
    assert ("epsilon_spent", ROUNDS) in kept.told
    assert not [
        name for name, _ in kept.told if not name.startswith(("epsilon_", "release_epsilon/", "noise_"))
    ]
    assert not {17_031.0, 17_033.0} & set(kept.told.values())


def test_a_tracker_that_fails_ends_the_tracking_and_not_the_run(finished: Path) -> None:
    def broken(about: About) -> Kept:
        raise RuntimeError("the service is away")

    said: list[str] = []
    with Follower(source_of(finished), [broken], say=said.append):
        pass

    assert said == ["tracking has ended: RuntimeError: the service is away"]


class Recorded(SimpleNamespace):
    """Stands for a tracker's package: it has the names that are used, and keeps the calls."""


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = importlib.util.spec_from_loader(name, loader=None)
    for key, value in members.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The part of MLflow's interface that is used (3.17), recorded."""
    calls: list[tuple[Any, ...]] = []

    class MlflowClient:
        def get_experiment_by_name(self, name: str) -> None:
            calls.append(("experiment?", name))

        def create_experiment(self, name: str) -> str:
            return f"id of {name}"

        def create_run(self, experiment_id: str, *, run_name: str) -> Any:
            calls.append(("run", experiment_id, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def log_param(self, run_id: str, key: str, value: str) -> None:
            calls.append(("param", run_id, key, value))

        def log_batch(self, run_id: str, metrics: Any) -> None:
            calls.append(("metrics", run_id, [(one.key, one.value, one.step) for one in metrics]))

        def set_terminated(self, run_id: str) -> None:
            calls.append(("end", run_id))

    class Metric:
        def __init__(self, key: str, value: float, timestamp: int, step: int) -> None:
            self.key, self.value, self.step = key, value, step

    monkeypatch.setitem(sys.modules, "mlflow", module("mlflow", MlflowClient=MlflowClient))
    monkeypatch.setitem(sys.modules, "mlflow.entities", module("mlflow.entities", Metric=Metric))
    return calls


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The part of the interface of Weights & Biases that is used (0.2x), recorded."""
    calls: list[tuple[Any, ...]] = []

    def init(**given: Any) -> Any:
        calls.append(("run", given))
        return SimpleNamespace(
            log=lambda values, *, step: calls.append(("log", step, values)),
            finish=lambda: calls.append(("end",)),
        )

    settings = SimpleNamespace
    monkeypatch.setitem(sys.modules, "wandb", module("wandb", init=init, Settings=settings))
    return calls


def about(folder: Path) -> About:
    return About(name="films", folder=folder, settings={"epsilon": "5.0"})


def test_mlflow_is_told_parameters_and_metrics_with_their_rounds(
    mlflow: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    sink = open_sink("mlflow", about(tmp_path))
    sink.log(3, {"epsilon_spent": 1.5})
    sink.close()

    assert mlflow == [
        ("experiment?", "fedboard"),
        ("run", "id of fedboard", "films"),
        ("param", "r1", "epsilon", "5.0"),
        ("metrics", "r1", [("epsilon_spent", 1.5, 3)]),
        ("end", "r1"),
    ]


def test_weights_and_biases_is_told_rounds_and_collects_nothing_by_itself(
    wandb: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    sink = open_sink("wandb", about(tmp_path))
    sink.log(3, {"epsilon_spent": 1.5})
    sink.close()

    assert wandb[0][1]["project"] == "fedboard"
    assert wandb[0][1]["config"] == {"epsilon": "5.0"}
    quiet = vars(wandb[0][1]["settings"])
    assert quiet["x_disable_stats"]
    assert quiet["x_disable_meta"]
    assert quiet["disable_git"]
    assert quiet["console"] == "off"
    assert wandb[1:] == [("log", 3, {"epsilon_spent": 1.5}), ("end",)]


def test_tensorboard_reads_what_was_written(finished: Path, tmp_path: Path) -> None:
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    run = Path(shutil.copytree(finished, tmp_path / "run"))

    with tracking(source_of(run), ("tensorboard",)):
        pass

    found = reading.EventAccumulator(str(run / "tensorboard")).Reload()
    spent = [(one.step, one.value) for one in found.Scalars("epsilon_spent")]
    assert [step for step, _ in spent] == list(range(ROUNDS + 1))
    assert [value for _, value in spent] == pytest.approx(spent_after(run), rel=1e-6)
    assert f"{LABEL}validation_rmse" in found.Tags()["scalars"]


@pytest.mark.filterwarnings("ignore")  # of mlflow itself
def test_mlflow_keeps_what_it_was_told(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    real.set_tracking_uri((tmp_path / "mlruns").as_uri())

    with tracking(source_of(finished), ("mlflow",)):
        pass

    client = real.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("fedboard").experiment_id])
    spent = [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, "epsilon_spent")]
    assert [value for _, value in sorted(spent)] == pytest.approx(spent_after(finished), rel=1e-12)
    assert run.data.params["algorithm"] == "adadpals"
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize("name", SINKS)
def test_a_tracker_that_is_missing_is_named_before_anything_begins(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find = importlib.util.find_spec
    package = SINKS[name][1]
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == package else find(asked))
    words = ["simulate", "--out", str(tmp_path / "run"), "--track", name]

    ended = CliRunner().invoke(commands, words)

    assert ended.exit_code == 2
    assert f"--track {name} needs the package {package}" in " ".join(ended.output.split())
    assert not (tmp_path / "run").exists()


def test_there_is_no_other_tracker() -> None:
    with pytest.raises(InputError, match="take one of mlflow, wandb, tensorboard"):
        require_installed("excel")
