"""``fedboard sweep`` on the command line; what a sweep does is tested with ``fedboard.simulations.sweeps``."""

import json
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.sweeps import cells as sweep_cells
from fedboard.simulations.sweeps import sweep as sweeps
from fedboard.simulations.sweeps.sweep import SweepRecord, SweepResult
from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("without_pictures")


@pytest.mark.slow
def test_a_sweep_prints_the_frontier_and_names_what_failed(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = sweep_cells.simulate

    def failing(config: SimulationConfig, *arguments: object, **keywords: object) -> object:
        if config.privacy.epsilon == 3:
            raise InputError("three is unlucky")
        return original(config, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep_cells, "simulate", failing)
    axes = ("--algorithms", "adadpals,item-mean", "--epsilon", "2,3", "--seeds", "0")

    result = fedboard("sweep", *tiny, *axes, "--out", tmp_path / "sweep")
    again = fedboard("sweep", "--out", tmp_path / "sweep", "--resume", "--json")

    assert result.exit_code == again.exit_code == 1
    assert "| adadpals |" in result.stdout
    assert "1 of 3 cells failed:\n- adadpals-eps3-seed0: three is unlucky" in result.stdout
    assert "cell 1 of 3: adadpals-eps2-seed0 finished, about 0:00:0" in result.stderr
    assert "cell 2 of 3: adadpals-eps3-seed0 failed" in result.stderr
    cells = json.loads(again.stdout)["cells"]
    assert [(cell["cell"], cell["error"]) for cell in cells] == [
        ("adadpals-eps2-seed0", None),
        ("adadpals-eps3-seed0", "three is unlucky"),
        ("item-mean", None),
    ]
    assert "was finished" in again.stderr


@pytest.mark.slow
def test_boards_with_secret_noise_about_the_same_people_are_added_up_or_refused(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    account, out = tmp_path / "people.ledger", tmp_path / "sweep"
    axes = ("--set", "privacy.noise=secure", "--algorithms", "item-mean-private")
    axes += ("--epsilon", "1,5", "--seeds", "0,1")
    grid = (*tiny[:-4], *axes)

    refused = fedboard("sweep", *grid, "--out", out)
    left = out.exists()
    fedboard("ledger", "create", account, "--epsilon", "8", "--delta", "1e-5")
    paid = fedboard("sweep", *grid, "--out", out, "--set", f"privacy.population={account}")
    certificates = [json.loads(path.read_text()) for path in out.glob("cells/*/certificate.json")]

    assert (refused.exit_code, left) == (3, False)
    assert "privacy.population" in refused.stderr
    assert paid.exit_code == 0, paid.output
    assert sorted(one["population"]["runs"] for one in certificates) == [1, 2, 3, 4]
    assert max(one["population"]["spent"] for one in certificates) > 7  # of 1, 1, 5 and 5


@pytest.mark.parametrize(
    ("flags", "floors"),
    [
        ((), True),
        (("--no-floors",), False),
        (("--algorithms", "adadpals"), False),
        (("--algorithms", "adadpals", "--floors"), True),
    ],
)
def test_floors_stand_in_the_grid_where_none_is_named(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], floors: bool
) -> None:
    asked = list[bool]()

    def planned(record: SweepRecord, *_: object, **__: object) -> SweepResult:
        asked.append(record.grid.floors)
        return SweepResult(outcomes=(), frontier=())

    monkeypatch.setattr(sweeps, "sweep", planned)

    assert fedboard("sweep", *flags, "--out", tmp_path / "sweep").exit_code == 0
    assert asked == [floors]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--epsilon", "1,1"), "without repetitions"),
        (("--epsilon", "1,-1"), "epsilons must be finite and > 0, got 1, -1"),
        (("--algorithms", "magic"), "algorithms must be among adadpals"),
        (("--seeds", "0.5"), "--seeds must be a comma-separated list"),
        (("--resume",), "holds no sweep to resume"),
    ],
)
def test_a_bad_grid_is_refused_and_leaves_nothing(
    fedboard: Command, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    result = fedboard("sweep", *flags, "--out", tmp_path / "sweep")

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "sweep").exists()
