"""What a run refuses because its guarantee would not hold, and what it writes down."""

import json
from pathlib import Path

import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.simulate import simulate

pytestmark = pytest.mark.slow


def a_config(**run: object) -> SimulationConfig:
    return parse_config(
        {
            "algorithm": "adadpals",
            "data": {"synthetic": {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}},
            "settings": {"rank": 2, "rounds": 1},
            "run": {"baselines": False, **run},
        }
    )


def test_a_run_without_its_ledger_is_not_continued(tmp_path: Path) -> None:
    simulate(a_config(), tmp_path / "run", report=False)
    (tmp_path / "run" / "boards" / "board-0002.board").unlink()
    (tmp_path / "run" / "ledger.sqlite").unlink()

    with pytest.raises(PrivacyError, match=r"restore ledger\.sqlite"):
        simulate(a_config(), tmp_path / "run", resume=True)


def test_a_run_is_not_continued_with_the_ledger_of_another(tmp_path: Path) -> None:
    simulate(a_config(), tmp_path / "run", report=False)
    simulate(a_config(), tmp_path / "other", report=False)
    (tmp_path / "run" / "boards" / "board-0002.board").unlink()
    (tmp_path / "other" / "ledger.sqlite").replace(tmp_path / "run" / "ledger.sqlite")

    with pytest.raises(PrivacyError):
        simulate(a_config(), tmp_path / "run", resume=True)


def test_a_run_and_the_models_beside_it_are_judged_by_users_activity(tmp_path: Path) -> None:
    simulate(a_config(baselines=True), tmp_path / "run")

    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    beside = json.loads((tmp_path / "run" / "baselines.json").read_text())
    assert len(beside) > 1
    for entry in (json.loads(lines[-1]), *beside.values()):
        groups = entry["by_activity"]
        assert set(groups) == {"activity_edges", *entry["metrics"]}
        assert len(groups["activity_edges"]) == 6
        # Errors of five groups of one size in users lie around that of all.
        assert min(groups["test_mae"]) < entry["metrics"]["test_mae"] < max(groups["test_mae"])
    assert 'id="figure-activity-test-rmse"' in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("adjacency", ["replace-values", "replace-labels"])
def test_a_training_promises_nothing_under_an_adjacency_that_leaves_public_what_it_hides(
    adjacency: str,
) -> None:
    with pytest.raises(InputError, match=r"privacy\.adjacency must be add-remove or replace"):
        parse_config({"privacy": {"adjacency": adjacency}})


def test_secure_noise_needs_a_catalogue_that_is_not_read_off_the_ratings() -> None:
    raw = {"privacy": {"noise": "secure"}, "data": {"source": "plays.csv"}}

    with pytest.raises(InputError, match=r"data\.catalogue"):
        parse_config(raw)
    for catalogue in ("listed", "declared"):
        parse_config({**raw, "data": {"source": "plays.csv", "catalogue": catalogue}})
