"""The benchmark that judges on anybody's sets: any range and grid, pairs twice, unrated items, lone ratings."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
Run = Callable[..., dict[str, Any]]


def archive(folder: Path, name: str, low: float, high: float, grid: int, **more: Any) -> dict[str, Any]:
    """A set of 120 users, some with one rating, on a grid of so many values; every tenth pair twice."""
    rng = np.random.default_rng(len(name))
    counts = rng.integers(1, 25, 120)
    users = np.repeat(np.arange(120), counts)
    items = np.concatenate([rng.choice(40, size, replace=False) for size in counts])
    ratings = low + (high - low) * rng.integers(0, grid, users.size) / (grid - 1)
    first = slice(None, None, 10)
    np.savez(
        folder / f"{name}.npz",
        user=np.concatenate([users[first], users]),
        item=np.concatenate([items[first], items]),
        rating=np.concatenate([np.full(users[first].size, low), ratings]),
        **more,
    )
    return {"users": 120, "items": 45, "range": [low, high], "delta": 1e-4, "note": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sets")
    info = {
        "halves": archive(place, "halves", 0.5, 4.0, 8, item_id=np.array([f"i{n}" for n in range(45)])),
        "jokes": archive(place, "jokes", -10.0, 10.0, 500),
        "thumbs": archive(place, "thumbs", 0.0, 1.0, 2),
        "played": {**archive(place, "played", 0.0, 1.0, 2), "note": "implicit; by hours"},
    }
    (place / "info.json").write_text(json.dumps(info))
    return place


@pytest.fixture(scope="module")
def module() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    import anywhere

    return anywhere


@pytest.fixture
def benchmark(module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    def run(*words: str | Path) -> dict[str, Any]:
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", ["anywhere.py", "--json", str(out), *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            module.main()
        if ended.value.code:
            raise AssertionError(ended.value.code)
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    return run


@pytest.mark.slow
def test_a_folder_of_any_sets_is_judged_and_a_stopped_call_goes_on(
    benchmark: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", folder, "--sets", "halves,jokes,thumbs,played", "--epsilon", "1,5", "--seeds", "0")
    chosen = ("--algorithms", "item-mean-private,bias-private,popularity-private", "--method", "bias-private")

    found = benchmark(*words, *chosen)

    assert set(found["rmse"]) == {"halves", "jokes", "thumbs"}
    assert set(found["recall"]) == {"played"}
    assert found["sets"]["halves"]["explicit"]["items"] == 45
    ratios = []
    for name in found["rmse"]:
        of_set = found["rmse"][name]
        assert of_set["user-item-bias"]["inf"] > 0
        for epsilon in ("1", "5"):
            ratios.append(of_set["bias-private"][epsilon] / of_set["item-mean-private"][epsilon])
    assert found["comparisons_with_floor"] == 6
    assert found["worst_ratio_to_floor"] == pytest.approx(max(1.0, *ratios))
    assert found["losses_to_floor"] == sum(ratio > 1 for ratio in ratios)
    assert found["against"]["explicit"]["item-mean-private"]["wins"] == sum(ratio < 1 for ratio in ratios)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    capsys.readouterr()

    (tmp_path / "out.jsonl").write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    again = benchmark(*words, *chosen)

    assert again["rmse"] == found["rmse"]
    assert capsys.readouterr().err.count("[1/1]") == 1  # of all runs the one whose line was cut short


def found_of(method: float, floor: float, rival: float | None) -> dict[str, Any]:
    """Errors of the default method, a floor and AdaDPALS on one set, as the benchmark writes them."""
    errors = {"residual": method, "bias-private": floor, "adadpals": rival}
    rmse = {"ours": {name: {"1": value} for name, value in errors.items() if value is not None}}
    empty: dict[str, Any] = {"recall": {}, "recall_std": {}}
    return {"rmse": rmse, "rmse_std": {"ours": {"adadpals": {"1": 0.0}}}, **empty, "asked": {"seeds": [0]}}


def test_numbers_of_a_later_call_take_the_place_of_kept_ones_and_are_judged_anew(module: ModuleType) -> None:
    from accuracy.anywhere.summary import with_part

    kept, part = found_of(0.9, 0.95, 1.0), found_of(0.9, 0.95, 0.8)
    for own in part["rmse"]["ours"], part["rmse_std"]["ours"]:
        own.pop("residual", None)
        own.pop("bias-private", None)
    part["asked"] = {"seeds": [0], "method": {"explicit": "residual", "implicit": "topk"}}

    found = with_part({**kept, "seconds": 7.0}, part)

    assert found["rmse"]["ours"] == {
        "residual": {"1": 0.9},
        "bias-private": {"1": 0.95},
        "adadpals": {"1": 0.8},
    }
    assert found["against"]["explicit"]["adadpals"] == {"wins": 0, "losses": 1}
    assert (found["wins_over_floor"], found["seconds"]) == (1, 7.0)
    assert kept["rmse"]["ours"]["adadpals"]["1"] == 1.0
    with pytest.raises(ValueError, match="not in what is kept"):
        with_part(found_of(0.9, 0.95, None), part)
    with pytest.raises(ValueError, match="seeds"):
        with_part(kept, {**part, "asked": {**part["asked"], "seeds": [0, 1]}})


def test_of_a_pair_that_is_there_twice_the_last_one_counts(module: ModuleType, folder: Path) -> None:
    from accuracy.anywhere.sets import configuration, problem_for, sets_of

    (data,) = sets_of(folder, ("jokes",))
    config = configuration(data, algorithm="bias-private", epsilon=1.0, seed=0, settings={})
    problem = problem_for(data, config)
    with np.load(folder / "jokes.npz") as arrays:
        pairs = set(zip(arrays["user"].tolist(), arrays["item"].tolist(), strict=True))
        rated = arrays["rating"][-(len(pairs)) :]
    held = problem.split.validation.n_ratings + problem.split.test.n_ratings  # type: ignore[union-attr]

    assert problem.train.n_ratings + held == len(pairs)
    assert problem.train.ratings.min() >= -10.0
    assert abs(float(problem.train.ratings.mean()) - float(rated.mean())) < 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sets", "nothing"], "unknown set 'nothing'"),
        (["--algorithms", "nothing"], "unknown 'nothing'"),
        (["--data", "nowhere"], "info.json"),
    ],
)
def test_what_cannot_be_run_is_said(benchmark: Run, words: list[str], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        benchmark(*words)
