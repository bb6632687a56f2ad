"""An algorithm is a folder and a line: with these it is listed, simulated, carried over a grid, sized and deployed.

The toy is the guide's own algorithm: the file that ``--algorithm FILE.py:RECORD`` takes, under a name of its own.
The same file in a package of somebody else's is installed by an entry point. A fleet trains it in
``tests/server/fleet/test_toys.py``.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fedboard.common.board import Board
from fedboard.common.tasks.registry import ALGORITHMS, algorithm_names
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.server.fleet.plan.costs import sized_algorithms
from tests.house import House, run
from tests.server.fleet.deployed import Fleet
from tests.toys import (
    ALGORITHM,
    ALGORITHM_LINE,
    ALGORITHM_REGISTRY,
    assert_verified,
    house_with_the_algorithm,
    install_the_algorithm,
)

pytestmark = pytest.mark.slow

TINY = (
    *("--data", "synthetic", "--kernels", "numpy", "--no-baselines", "--no-report", "--noise", "seeded"),
    *("--set", "data.synthetic.n_users=60", "--set", "data.synthetic.n_items=20"),
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return house_with_the_algorithm(tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of processes in which somebody else's package is installed."""
    place = tmp_path_factory.mktemp("site")
    install_the_algorithm(place)
    return {"PYTHONPATH": str(place)}


@pytest.fixture(scope="module")
def both(house: House, tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, Board]:
    """The last boards of the toy by its line: made by two processes of the engine, and over a grid."""
    place, toy = tmp_path_factory.mktemp("both"), ["--algorithm", "toy"]
    engine, grid = simulated(
        house.environment,
        (place / "engine", [*toy, "--workers", 2]),
        (place / "grid", [*toy, "--runtime", "in-process"]),
    )
    return engine, grid


@pytest.fixture(scope="module")
def engine(both: tuple[Board, Board]) -> Board:
    """The first of them."""
    return both[0]


def last_board(run_folder: Path) -> Board:
    return Board.load(sorted((run_folder / "boards").glob("*.board"))[-1])


def simulated(environment: Mapping[str, str], *runs: tuple[Path, Sequence[object]]) -> list[Board]:
    """Verified runs and their last boards."""
    ended = run(*(["simulate", *TINY, *words, "--out", out] for out, words in runs), environment=environment)
    assert [code for code, _ in ended] == [0] * len(runs), ended
    for out, _ in runs:
        assert_verified(out)
    return [last_board(out) for out, _ in runs]


def test_the_toy_is_one_folder_and_one_line(house: House) -> None:
    """All that differs from the product; a link to the product's own file is no difference."""
    folder = [
        f"common/tasks/toy/{name}" for name in ("__init__.py", "algorithm.py", "presets.toml", "search.toml")
    ]

    assert house.touched == [ALGORITHM_REGISTRY, *folder]
    assert house.changed_lines == [f"+ {ALGORITHM_LINE.rstrip()}"]


def test_everything_that_lists_algorithms_lists_the_toy(house: House) -> None:
    names = ", ".join(["toy", *algorithm_names()])
    helps = [[command, "--help"] for command in ("simulate", "audit", "tune", "size")]
    refused = [
        ["simulate", *TINY, "--algorithm", "other"],
        ["sweep", "--data", "synthetic", "--algorithms", "toy,other"],
        ["sweep", "--data", "synthetic", "--algorithms", "toy", "--feedback", "implicit"],
        ["tune", "--data", "synthetic", "--algorithm", "toy", "--set", "settings.damping=3"],
    ]

    sizes = ["size", "--users", 1000, "--items", 100, "--algorithm", "toy", "--json"]

    told = [text for _, text in house.run(*helps, *refused, sizes)]
    *shown, of_sizes = [text.replace("- ", "-") for text in told[: len(helps)]]  # lines break at hyphens
    *reasons, sized = told[len(helps) :]

    assert all(names in text for text in shown)
    assert ", ".join(["toy", *sized_algorithms()]) in of_sizes
    assert f"algorithm must be one of {names}" in reasons[0]
    assert f"algorithms must be among {', '.join(['toy', *algorithm_names(Feedback.EXPLICIT)])}" in reasons[1]
    assert "algorithms must be among adadpals, " in reasons[2]  # it learns from ratings alone
    assert "sets everything that would be searched" in reasons[3]  # its own search.toml was read
    assert json.loads(sized)["nodes"] == 1000


def test_without_the_line_it_is_refused() -> None:
    """The control: it is the line that does it."""
    ((code, text),) = run(["simulate", *TINY, "--algorithm", "toy"], environment={})

    assert code != 0
    assert f"algorithm must be one of {ALGORITHMS[0]}" in text


def test_the_same_verified_board_on_the_engine_and_over_a_grid(both: tuple[Board, Board]) -> None:
    engine, grid = both

    assert engine.digest == grid.digest
    assert engine.task == "toy"
    assert engine.config["damping"] == 10.0  # its own presets.toml was read
    assert engine.version == 2


def test_the_same_file_by_its_path_and_by_an_entry_point_makes_the_same_board(
    engine: Board, installed: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(ALGORITHM, encoding="utf-8")
    same = ("--set", "settings.damping=10")  # as the preset beside the line has it
    own = ["--algorithm", f"{tmp_path / 'own.py'}:ALGORITHM", "--workers", 2, *same]

    (by_path,) = simulated({}, (tmp_path / "path", own))
    (by_entry,) = simulated(
        installed, (tmp_path / "entry", ["--algorithm", "toy", "--runtime", "in-process", *same])
    )

    assert engine.digest == by_path.digest == by_entry.digest


def test_a_device_recommends_from_its_board_where_it_is_installed_and_nowhere_else(
    installed: Mapping[str, str], tmp_path: Path
) -> None:
    made = ["simulate", *TINY, "--algorithm", "toy", "--out", tmp_path / "run"]
    ratings = tmp_path / "mine.csv"
    ratings.write_text("item,rating\n1,5\n2,1\n", encoding="utf-8")
    asked = (["recommend", ratings, tmp_path / "run"], ["explain", "3", ratings, tmp_path / "run"])

    _, *there = run(made, *asked, environment=installed)
    elsewhere = run(*asked, environment={})
    assert_verified(tmp_path / "run")

    assert [code for code, _ in there] == [0, 0], there
    for code, text in elsewhere:
        assert code != 0
        assert "made by the task 'toy', which is not installed here" in text


def test_a_fleet_takes_no_file(tmp_path: Path) -> None:
    """What its devices could not rebuild is refused before anything is made, and no code of it runs."""
    marker = tmp_path / "it-ran"
    (tmp_path / "own.py").write_text(f"open({str(marker)!r}, 'w').close()\n" + ALGORITHM, encoding="utf-8")
    fleet = Fleet(tmp_path, task=f'algorithm = "{tmp_path / "own.py"}:ALGORITHM"')

    ((code, text),) = run(["server", "--config", tmp_path / "fleet.toml"], environment={})

    assert code != 0
    assert "a fleet takes what is installed" in text
    assert not marker.exists()
    assert fleet.boards() == []
