"""The frontier of a sweep: means and spreads by hand, three files, nothing from outside."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.simulations.sweeps.frontier import Result, write_frontier


def result(algorithm: str, epsilon: float | None, seed: int, rmse: float, **more: Any) -> Result:
    given: dict[str, Any] = {
        "delta": None if epsilon is None else 1e-5,
        "metrics": {"test_rmse": rmse, "recall@20": 1 - rmse},
        "sliced": {"test_rmse": [rmse + 0.2, rmse + 0.1, rmse]},
    }
    return Result(algorithm=algorithm, epsilon=epsilon, seed=seed, **(given | more))


SWEEP = [
    result("AdaDPALS", 1, 0, 0.96),
    result("AdaDPALS", 1, 1, 0.94),
    result("AdaDPALS", 20, 0, 0.88),
    result("residual", 1, 0, 0.89),
    result("residual", 1, 1, 0.91),
    result("residual", 20, 0, 0.881),
    result("ALS", None, 0, 0.867),
    result("item mean", None, 0, 0.98, sliced={}),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    paths = write_frontier(SWEEP, tmp_path_factory.mktemp("out") / "sweep")
    return {path.name: path for path in paths}


def test_three_files_are_written_and_need_nothing_else(files: dict[str, Path]) -> None:
    assert sorted(files) == ["frontier.html", "frontier.json", "frontier.md"]
    html, markdown = (files[f"frontier.{kind}"].read_text() for kind in ("html", "md"))
    assert "http:" not in html
    assert "https:" not in html
    for page in (html, markdown):
        assert "not private: simulation only" in page
        assert "0.9500 ± 0.0141" in page
    assert "| residual | 0.9000 ± 0.0141 * | 0.8810 | – |" in markdown


def test_the_json_keeps_the_results_and_adds_the_summary(files: dict[str, Path]) -> None:
    content = json.loads(files["frontier.json"].read_text())

    assert content["results"] == [asdict(one) for one in SWEEP]
    entry = next(
        line
        for line in content["summary"]
        if (line["metric"], line["algorithm"]) == ("test_rmse", "residual")
    )
    assert entry["epsilon"] == 1
    assert entry["mean"] == pytest.approx(0.9)
    assert entry["spread"] == pytest.approx(np.std([0.89, 0.91], ddof=1))
    assert entry["n_seeds"] == 2
