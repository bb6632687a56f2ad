"""The frontier benchmark: its numbers are those of the runs it made, and what is finished is not run again."""

import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations import simulate

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
TINY = (
    *("--set", "data.synthetic.n_users=300", "data.synthetic.n_items=60"),
    *("data.synthetic.mean_ratings_per_user=15", "settings.rank=3", "settings.rounds=2", "run.kernels=numpy"),
)


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the reports of the runs empty: drawing takes longer than everything else."""

    def written(run: Path) -> Path:
        (run / "report.html").write_text("<p>left out")
        return run / "report.html"

    monkeypatch.setattr(simulate, "write_report", written)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from accuracy import frontier, frontier_plan

    return {"frontier": frontier, "frontier_plan": frontier_plan}


@pytest.fixture
def benchmark(modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*arguments: str | Path) -> int:
        monkeypatch.setattr(sys, "argv", ["frontier.py", "--jobs", "1", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            modules["frontier"].main()
        if isinstance(ended.value.code, str):
            raise AssertionError(ended.value.code)
        return int(ended.value.code or 0)

    return run


def finals(out: Path, name: str) -> list[dict[str, Any]]:
    paths = sorted(path for path in out.rglob("metrics.jsonl") if re.fullmatch(name, path.parent.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in paths]


def test_numbers_are_those_of_the_runs_and_finished_runs_are_kept(
    benchmark: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", tmp_path / "numbers" / "f.json"
    asked = ("--algorithms", "adadpals", "--epsilon", "1", "0.5", "--seeds", "2", *TINY, "--out", out)
    variant = ("--variant", "even", "adadpals", "weight_exponent=0", "privacy.shares.quadratic=0.4")

    first = benchmark(*asked, *variant, "--feedback", "explicit", "--json", file)
    told = capsys.readouterr()
    numbers = json.loads(file.read_text())
    written = {path: path.stat().st_mtime_ns for path in out.rglob("metrics.jsonl")}
    second = benchmark(*asked, *variant, "--feedback", "explicit", "--json", file)
    again = json.loads(file.read_text())

    assert first == second == 0
    assert set(numbers["rmse"]) == {"adadpals", "even"}
    assert list(numbers["rmse"]["even"]) == ["1", "0.5"]
    for name in ("adadpals", "even"):
        of_runs = [f["metrics"]["test_rmse"] for f in finals(out, rf"{name}-eps0.5-seed\d")]
        assert len(of_runs) == 2
        assert numbers["rmse"][name]["0.5"] == pytest.approx(statistics.fmean(of_runs), rel=1e-12)
        assert numbers["rmse_std"][name]["0.5"] == pytest.approx(statistics.stdev(of_runs), rel=1e-12)
        assert len(numbers["rmse_by_popularity"][name]["0.5"]) == 5
    assert numbers["seeds"]["adadpals"]["1"] == [3, 4]
    assert numbers["promise_explicit"]["even"]["1"]["settings"]["weight_exponent"] == 0
    assert 0.99 < numbers["promise_explicit"]["even"]["1"]["epsilon_spent"] <= 1
    assert set(numbers["references"]["rmse"]) == {"item-mean", "user-item-bias", "local-only", "als"}
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert "kept" in capsys.readouterr().err
    assert again["rmse"] == numbers["rmse"]
    assert again["cpu_seconds_per_run_explicit"] == numbers["cpu_seconds_per_run_explicit"]
    assert "| synthetic | Test RMSE (stars), lower is better | adadpals |" in told.out
    assert "±" in file.with_suffix(".md").read_text()
    assert file.with_suffix(".svg").read_text().startswith("<?xml")


def test_several_data_sets_stand_beside_each_other_and_the_first_on_top(
    benchmark: Callable[..., int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    user, item = (part.astype(np.int32) for part in np.nonzero(rng.random((150, 40)) < 0.4))
    test = rng.random(user.size) < 0.2
    rating = rng.integers(1, 6, user.size).astype(np.float32)
    np.savez(
        tmp_path / "own.npz",
        **{"user": user[~test], "item": item[~test], "rating": rating[~test], "item_id": np.arange(40)},
        **{"test_user": user[test], "test_item": item[test], "test_rating": rating[test]},
    )

    code = benchmark(
        *("--data", "synthetic", tmp_path / "own.npz", "--algorithms", "adadpals", "--epsilon", "5"),
        *("--seeds", "1", "--no-references", *TINY, "--json", tmp_path / "f.json"),
    )

    numbers = json.loads((tmp_path / "f.json").read_text())
    assert code == 0
    assert set(numbers["data"]) == {"synthetic", "own"}
    assert numbers["rmse"] == numbers["data"]["synthetic"]["rmse"] != numbers["data"]["own"]["rmse"]
    assert 0 < numbers["recall20"]["adadpals"]["5"] <= 1
    assert "recall20" not in numbers["data"]["own"]  # its own test part is about ratings
    assert numbers["rmse_std"]["adadpals"]["5"] is None


def test_a_run_that_fails_is_named_and_the_others_stand(
    benchmark: Callable[..., int], tmp_path: Path
) -> None:
    code = benchmark(
        *("--algorithms", "adadpals", "--variant", "broken", "adadpals", "clip_norm=-1", "--epsilon", "5"),
        *("--seeds", "1", "--no-references", "--feedback", "explicit", *TINY, "--json", tmp_path / "f.json"),
    )

    numbers = json.loads((tmp_path / "f.json").read_text())
    assert code == 1
    assert "clip_norm must be" in numbers["failed"]["synthetic explicit broken-eps5-seed3"]
    assert set(numbers["rmse"]) == {"adadpals"}


def test_variants_are_read_from_a_file(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    plan = modules["frontier_plan"]
    (tmp_path / "v.toml").write_text(
        '[even]\nalgorithm = "adadpals"\nfeedback = "explicit"\nsettings = { weight_exponent = 0.0 }\n'
        'at = { "1" = { settings = { clip_norm = 0.2 }, privacy = { shares = { counts = 0.1 } } } }\n'
    )

    runs = plan.Plan(
        data=plan.data_sets(["synthetic"], None),
        variants=tuple(plan.read_variants(tmp_path / "v.toml")),
        epsilons=("1", "5"),
        seeds=(3,),
        assignments=(),
        with_references=False,
    ).runs()

    assert [(run.feedback, run.epsilon) for run in runs] == [("explicit", "1"), ("explicit", "5")]
    assert [run.cell.config.settings for run in runs] == [
        {"weight_exponent": 0.0, "clip_norm": 0.2},
        {"weight_exponent": 0.0},
    ]
    assert runs[0].cell.config.privacy.shares == {"counts": 0.1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--algorithms", "magic"), "algorithms must be among"),
        (("--algorithms", "adadpals", "adadpals"), "variants: adadpals is there twice"),
        (("--variant", "als", "adadpals"), "a variant needs a name of its own"),
        (("--variant", "a/b", "adadpals"), "names of variants"),
        (("--variant", "alone"), "--variant needs NAME ALGORITHM"),
        (("--epsilon", "1", "1.0"), "--epsilon: 1 is there twice"),
        (("--data", "synthetic", "synthetic"), "--data: synthetic is there twice"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(
    modules: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["frontier.py", *arguments])

    with pytest.raises(InputError, match=message):
        modules["frontier"].planned(modules["frontier"].arguments())
