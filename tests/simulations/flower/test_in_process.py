"""A fleet's rounds over nodes in this process: the engine's boards, bit for bit."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore
from fedboard.simulations.runs.trainer import Listener
from fedboard.simulations.simulate import simulate
from tests.simulations.flower.small_runs import N_USERS, a_config, digests

pytestmark = pytest.mark.slow

Engine = Callable[..., list[str]]


@pytest.fixture(scope="module")
def by_the_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The boards of an undisturbed run of the engine."""
    found: dict[str, list[str]] = {}

    def boards(algorithm: str = "adadpals", **sections: Any) -> list[str]:
        key = repr((algorithm, sorted(sections.items())))
        if key not in found:
            out = tmp_path_factory.mktemp("engine") / "run"
            simulate(a_config(algorithm, **sections), out, report=False)
            found[key] = digests(out)
        return found[key]

    return boards


@pytest.mark.parametrize("algorithm", ["adadpals", "residual"])
@pytest.mark.parametrize(
    "run",
    [{"nodes": 1}, {"nodes": 3}, {"nodes": 7}],
    ids=str,
)
def test_nodes_do_not_matter(
    tmp_path: Path, by_the_engine: Engine, algorithm: str, run: dict[str, Any]
) -> None:
    simulate(a_config(algorithm, runtime="in-process", **run), tmp_path / "run")

    assert digests(tmp_path / "run") == by_the_engine(algorithm)
    assert len(digests(tmp_path / "run")) >= 4


SAMPLED = [
    {"kind": "fixed-size", "size": 60},
    {"kind": "shuffled-cohorts", "cohorts": 2},
    {"kind": "poisson", "probability": 0.5},
]


@pytest.mark.parametrize("participation", SAMPLED, ids=lambda section: section["kind"])
def test_the_same_users_take_part(
    tmp_path: Path, by_the_engine: Engine, participation: dict[str, Any]
) -> None:
    counted = participation["kind"] != "poisson"
    privacy = {"participation": participation, "adjacency": "replace" if counted else "add-remove"}
    settings = {"rounds": 1} if participation["kind"] == "poisson" else {}  # its accounting takes its time

    simulate(a_config(privacy=privacy, settings=settings, runtime="in-process", nodes=3), tmp_path / "run")

    assert digests(tmp_path / "run") == by_the_engine(privacy=privacy, settings=settings)
    everybody = {"adjacency": privacy["adjacency"]}
    assert digests(tmp_path / "run") != by_the_engine(privacy=everybody, settings=settings)


@pytest.mark.parametrize("algorithm", ["adadpals", "residual"])
def test_personal_levels_hold(tmp_path: Path, by_the_engine: Engine, algorithm: str) -> None:
    privacy = {"personal": [{"epsilon": 1.0, "share": 0.3}, {"epsilon": 3.0, "share": 0.3}]}

    simulate(a_config(algorithm, privacy=privacy, runtime="in-process", nodes=4), tmp_path / "run")

    assert digests(tmp_path / "run") == by_the_engine(algorithm, privacy=privacy)
    assert digests(tmp_path / "run")[1] != by_the_engine(algorithm)[1]


class Interrupts(Listener):
    """Ctrl-C after so many rounds."""

    def __init__(self, after: int) -> None:
        self.after = after

    def round_finished(self, line: Any) -> None:
        if line["event"] == "round" and line["round"] == self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("algorithm", ["adadpals", "residual"])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("runtimes", [("in-process", "in-process"), ("engine", "in-process")], ids=str)
def test_an_interrupted_run_goes_on_to_the_same_boards(
    tmp_path: Path, by_the_engine: Engine, algorithm: str, after: int, runtimes: tuple[str, str]
) -> None:
    out = tmp_path / "run"
    first, second = (a_config(algorithm, runtime=runtime, nodes=3) for runtime in runtimes)
    with pytest.raises(KeyboardInterrupt):
        simulate(first, out, listener=Interrupts(after))
    assert len(digests(out)) == after + 2

    simulate(second, out, resume=True)

    assert digests(out) == by_the_engine(algorithm)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    n_rounds = len(digests(out)) - 1
    assert [record.get("round") for record in records] == [*range(n_rounds), None]


def test_the_records_are_those_of_the_engine_but_for_what_travelled(tmp_path: Path) -> None:
    lines: dict[str, list[dict[str, Any]]] = {}
    for runtime in ("engine", "in-process"):
        config = a_config(runtime=runtime, evaluate_rounds=True)
        out = tmp_path / runtime
        simulate(config, out)
        lines[runtime] = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    travelled = {"seconds", "seconds_total", "bytes_up_per_client", "bytes_down_per_client"}
    for ours, theirs in zip(lines["in-process"], lines["engine"], strict=True):
        assert set(ours) == set(theirs)
        for key in set(ours) - travelled:
            assert ours[key] == theirs[key], key
    ups = [line["bytes_up_per_client"] for line in lines["in-process"][:-1]]
    assert ups == [line["bytes_up_per_client"] for line in lines["engine"][:-1]]


def nothing_left(out: Path) -> bool:
    return not out.exists()


@pytest.mark.parametrize("runtime", ["in-process", "flower"])
def test_what_no_fleet_can_do_is_one_sentence_and_leaves_nothing(tmp_path: Path, runtime: str) -> None:
    says = rf"nodes must be in 1\.\.{N_USERS} \(the number of users\), got {N_USERS + 1}"
    with pytest.raises(InputError, match=says):
        simulate(a_config(runtime=runtime, nodes=N_USERS + 1), tmp_path / "run")
    assert nothing_left(tmp_path / "run")


@pytest.mark.parametrize("module", ["flwr", "ray"])
def test_a_missing_extra_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(InputError, match=rf"needs {module}, .* pip install '\.\[sim\]'"):
        simulate(a_config(runtime="flower"), tmp_path / "run")
    assert nothing_left(tmp_path / "run")


def test_nodes_in_this_process_need_no_flower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)

    simulate(a_config(runtime="in-process"), tmp_path / "run", report=False)


def an_account(path: Path, epsilon: float) -> str:
    Population.create(path, Budget(epsilon=epsilon, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)).close()
    return str(path)


def test_a_plan_that_the_population_does_not_cover_leaves_nothing(tmp_path: Path) -> None:
    account = an_account(tmp_path / "users", 1.0)

    with pytest.raises(BudgetExceededError):
        simulate(
            a_config(runtime="in-process", privacy={"epsilon": 5.0, "population": account}), tmp_path / "run"
        )
    assert nothing_left(tmp_path / "run")
    simulate(
        a_config(runtime="in-process", privacy={"epsilon": 1.0, "population": account}), tmp_path / "run"
    )


def test_a_run_is_not_continued_with_the_ledger_of_another(tmp_path: Path) -> None:
    config = a_config(runtime="in-process")
    for name in ("run", "other"):
        simulate(config, tmp_path / name)
    (tmp_path / "other" / "ledger.sqlite").replace(tmp_path / "run" / "ledger.sqlite")

    with pytest.raises(PrivacyError):
        simulate(config, tmp_path / "run", resume=True)


def test_nothing_of_the_ratings_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cohorts' files live in a temporary folder for the time of the run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    with pytest.raises(KeyboardInterrupt):
        simulate(a_config(runtime="in-process"), tmp_path / "run", listener=Interrupts(0))

    assert list((tmp_path / "temporary").iterdir()) == []
    assert not list((tmp_path / "run").rglob("*.npy"))


def test_secure_noise_that_was_lost_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, config = tmp_path / "run", a_config(runtime="in-process", privacy={"noise": "secure"})
    publish = BoardStore.publish

    def killed(self: BoardStore, board: Any, *arguments: Any, **keywords: Any) -> Any:
        if board.version == 2:
            raise KeyboardInterrupt
        return publish(self, board, *arguments, **keywords)

    monkeypatch.setattr(BoardStore, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        simulate(config, out)
    monkeypatch.setattr(BoardStore, "publish", publish)

    result = simulate(config, out, resume=True)

    store = BoardStore(out / "boards")
    assert store.versions() == [0, 1, 2, 3]
    np.testing.assert_array_equal(store.load(2).arrays["item_factors"], store.load(1).arrays["item_factors"])
    with Ledger.open(out / "ledger.sqlite", read_only=True) as ledger:
        names = [event["name"] for event in ledger.events()]
    assert len(names) == len(set(names))
    assert result.certificate.holds
