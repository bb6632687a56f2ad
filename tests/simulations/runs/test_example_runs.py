"""Runs on examples: one board wherever clients run and whatever interrupted it, verified; nobody moves others."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.client.ratings.examples_file import ExamplesTable
from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.board import Board
from fedboard.common.errors import InputError, PrivacyError
from fedboard.server.training import FinishedRound
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.data.examples import ExampleProblem, split_examples
from fedboard.simulations.data.synthetic.examples import SharedLinear
from fedboard.simulations.runs.calibrated import build_any, load_any
from fedboard.simulations.runs.trainer import EngineTrainer, require_own_parts
from fedboard.simulations.simulate import simulate
from tests.client.ratings.written import write_examples
from tests.simulations.runs.removal import part_of

SOURCE = SharedLinear(users=60, examples=6, dimension=5)
SHARED = "representation"
FEDREP, SINGLE = (
    f"{Path(__file__).parents[3]}/research/jain/{name}.py:ALGORITHM"
    for name in ("fedrep_private", "single_model")
)
ALL = {"representation": SHARED, "fedrep": FEDREP, "single": SINGLE}
"""One that is installed, and two from files."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "people.csv"
    write_examples(path, table())
    return path


def table() -> ExamplesTable:
    """People with different numbers of examples."""
    drawn = SOURCE.sample(0).examples
    keep = (
        np.arange(drawn.labels.size) % SOURCE.examples <= np.arange(drawn.labels.size) // 7 % SOURCE.examples
    )
    bounds = np.concatenate([[0], np.cumsum(keep.reshape(SOURCE.users, -1).sum(axis=1))])
    examples = Examples(indptr=bounds, features=drawn.features[keep], labels=drawn.labels[keep])
    users = tuple(f"person {number:02}" for number in range(SOURCE.users))
    return ExamplesTable(features=SOURCE.catalogue.item_ids, users=users, examples=examples)


def configured(data: Path, algorithm: str = SHARED, **changes: Any) -> SimulationConfig:
    raw: dict[str, Any] = {
        "algorithm": algorithm,
        "data": {"source": str(data)},
        "run": {"evaluate_rounds": False, "baselines": False, **changes.pop("run", {})},
    }
    return parse_config({**raw, **changes})


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A run of each algorithm. To be read only."""
    folder = tmp_path_factory.mktemp("runs")
    for name, algorithm in ALL.items():
        simulate(configured(data, algorithm), folder / name)
    return {algorithm: folder / name for name, algorithm in ALL.items()}


def digests(run: Path) -> list[str]:
    return [Board.load(path).digest for path in sorted((run / "boards").glob("*.board"))]


def arrays(run: Path) -> list[bytes]:
    """What was learnt, board by board, whatever the certificates say of where it was computed."""
    boards = [Board.load(path) for path in sorted((run / "boards").glob("*.board"))]
    return [b"".join(board.arrays[name].tobytes() for name in sorted(board.arrays)) for board in boards]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL.values(), ids=ALL)
def test_a_certificate_is_recomputed_and_a_forged_one_is_found(
    finished: Mapping[str, Path], name: str, tmp_path: Path
) -> None:
    verify = ["certificate", "verify", "--simulation"]
    ended = CliRunner().invoke(commands, [*verify, str(finished[name])])
    assert ended.exit_code == 0, ended.output
    stated = json.loads((finished[name] / "certificate.json").read_text())
    assert stated["claim"]["epsilon"] == pytest.approx(5.0)

    stated["releases"][0]["noise_multiplier"] *= 1.5
    (tmp_path / "forged.json").write_text(json.dumps(stated))
    assert CliRunner().invoke(commands, [*verify, str(tmp_path / "forged.json")]).exit_code != 0


class Killed(BaseException):
    """Comes from nowhere, as a signal does."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [SHARED, FEDREP], ids=["representation", "fedrep"])
@pytest.mark.parametrize("after", [1, 3])
def test_a_run_that_was_killed_goes_on_to_the_same_boards(
    data: Path,
    finished: Mapping[str, Path],
    name: str,
    after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = EngineTrainer.run

    def killed(self: EngineTrainer, board: Board, on_round: Any) -> None:
        def count(done: FinishedRound) -> None:
            if done.board.version == after:
                raise Killed
            on_round(done)

        run(self, board, count)

    with monkeypatch.context() as patch:
        patch.setattr(EngineTrainer, "run", killed)
        with pytest.raises(Killed):
            simulate(configured(data, name), tmp_path / "run")
    assert len(digests(tmp_path / "run")) == after + 1

    simulate(configured(data, name), tmp_path / "run", resume=True)

    assert digests(tmp_path / "run") == digests(finished[name])


def without(removed: int) -> ExamplesTable:
    whole = table()
    assert whole.users is not None
    left = np.array([user for user in range(SOURCE.users) if user != removed], dtype=np.int32)
    users = tuple(whole.users[user] for user in left)
    return replace(whole, users=users, examples=whole.examples.rows(left))


def given_by(found: ExamplesTable, boards: list[Board], algorithm: str) -> dict[str, bytes]:
    """What each person of a file gives to every round of a run on other people's data, by her id."""
    problem = split_examples(found, "people", seed=0, validation=None, test=None)
    given: dict[str, list[bytes]] = {user: [] for user in found.users or ()}
    task = build_any(parse_config({"algorithm": algorithm}), problem, backend="numpy")
    for board in boards:
        if requests := task.requests(board):
            contribution = task.contribute(problem.train, board, requests)
            for row, user in enumerate(given):
                given[user].append(part_of(contribution, row))
    return {user: b"|".join(parts) for user, parts in given.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [SHARED, FEDREP], ids=["representation", "fedrep"])
def test_whoever_is_removed_everybody_else_gives_what_they_gave(
    finished: Mapping[str, Path], name: str
) -> None:
    boards = [Board.load(path) for path in sorted((finished[name] / "boards").glob("*.board"))]
    before = given_by(table(), boards, name)
    counts = np.diff(table().examples.indptr)

    for removed in {0, SOURCE.users - 1, int(counts.argmax())}:
        after = given_by(without(removed), boards, name)
        assert len(after) == SOURCE.users - 1
        assert [user for user, part in after.items() if before[user] != part] == []
    assert len(set(before.values())) > SOURCE.users / 2  # they do give something


def test_secret_noise_asks_for_a_split_by_coins_of_ones_own(data: Path) -> None:
    problem = load_any(configured(data))
    assert isinstance(problem, ExampleProblem)
    require_own_parts(problem)

    shifted = replace(problem, train=problem.split.train_and_validation)
    with pytest.raises(PrivacyError, match="not what the coins of its split say"):
        require_own_parts(shifted)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"feedback": "implicit"}, "leave out feedback"),
        ({"split": {"folds": 3}}, "leave out split.folds"),
        ({"data": {"source": "x.csv", "rating_range": [1, 5]}}, "leave out data.rating_range"),
    ],
)
def test_what_only_ratings_have_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_config({"algorithm": SHARED, **changes})
    with pytest.raises(InputError, match=says):  # of a file only running it tells what it learns from
        load_any(parse_config({"algorithm": FEDREP, **changes}))
