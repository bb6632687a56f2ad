"""Runs from Python: keywords are the keys of the configuration, ratings come from anywhere."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fedboard

MADE_UP = {"synthetic": {"n_users": 150, "n_items": 40, "mean_ratings_per_user": 12.0}}
QUICK: dict[str, Any] = {
    "rank": 2,
    "rounds": 1,
    "kernels": "numpy",
    "run": {"evaluate_rounds": False},
    "baselines": False,
    "report": False,
}


class Frame(dict[str, Any]):
    """As much of a data frame as is asked for."""

    @property
    def columns(self) -> list[str]:
        return list(self)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> fedboard.Run:
    out = tmp_path_factory.mktemp("run") / "first"
    return fedboard.simulate(data=MADE_UP, epsilon=5.0, out=out, **QUICK)


def columns(n_users: int = 150) -> tuple[list[int], list[str], list[float]]:
    rng = np.random.default_rng(0)
    pairs = [(user, item) for user in range(n_users) for item in rng.choice(40, 8, replace=False)]
    return (
        [user for user, _ in pairs],
        [f"film-{item}" for _, item in pairs],
        rng.integers(1, 6, len(pairs)).astype(float).tolist(),
    )


@pytest.mark.slow
def test_the_default_is_residual_and_the_board_that_the_same_file_gives(
    run: fedboard.Run, run_place: Path
) -> None:
    assert run.algorithm == "residual"
    assert run.board.digest == fedboard.load_board(run_place).digest
    assert run.certificate.claim.epsilon == pytest.approx(5.0)
    assert run.metrics["test_rmse"] > 0
    assert run.report is None
    assert run.verify().holds


@pytest.mark.slow
def test_a_finished_run_is_opened_again(run: fedboard.Run) -> None:
    again = fedboard.Run.load(run.path)

    assert again.board.digest == run.board.digest
    assert again.metrics == run.metrics
    with pytest.raises(fedboard.errors.InputError, match="no finished run"):
        fedboard.Run.load(run.path / "boards")


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"epsilom": 5.0}, "the keywords: unknown key 'epsilom'"),
        ({"privacy": {"epsilom": 5.0}}, "privacy: unknown key 'epsilom'; known are .*did you mean 'epsilon'"),
        ({"settings": {"clip_nrom": 1.0}}, "settings: unknown key 'clip_nrom'"),
        ({"epsilon": -1.0}, "privacy.epsilon must be a finite number > 0"),
        ({"epsilon": 5.0, "privacy": {"epsilon": 1.0}}, "epsilon is given twice"),
        ({"algorithm": "magic"}, "algorithm must be one of adadpals"),
        ({"algorithm": "als"}, "als is without privacy and has no certificate"),
        ({"resume": True}, "resume=True needs the run"),
    ],
)
def test_a_misspelt_or_impossible_keyword_is_refused_as_a_file_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keywords: dict[str, Any], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(fedboard.errors.InputError, match=sentence):
        fedboard.simulate(data=MADE_UP, **keywords)

    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_frames_and_arrays_and_files_give_the_same_board(tmp_path: Path) -> None:
    users, items, ratings = columns()
    lines = [f"{u},{i},{r:g}" for u, i, r in zip(users, items, ratings, strict=True)]
    (tmp_path / "memory.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    frame = Frame(who=np.array(users), item=np.array(items), rating=np.array(ratings))
    scale = {"rating_range": (1.0, 5.0), **QUICK}

    from_file = fedboard.simulate(data=tmp_path / "memory.csv", out=tmp_path / "file", **scale)
    from_arrays = fedboard.simulate(data=(users, items, ratings), out=tmp_path / "arrays", **scale)
    from_frame = fedboard.simulate(
        data=frame,
        config={"data": {"columns": {"user": "who", "item": "item", "rating": "rating"}}},
        out=tmp_path / "frame",
        **scale,
    )

    from_arrow = fedboard.simulate(
        data=pa.table({"user": users, "item": items, "rating": ratings}), out=tmp_path / "arrow", **scale
    )

    digests = {one.board.digest for one in (from_file, from_arrays, from_frame, from_arrow)}
    assert len(digests) == 1
    resumed = fedboard.simulate(
        data=(users, items, ratings), out=tmp_path / "arrays", resume=True, report=False
    )
    assert resumed.board.digest == from_arrays.board.digest


@pytest.mark.parametrize(
    ("source", "keywords", "sentence"),
    [
        (([1], [1], [3.0]), {}, "need their range"),
        (([1, 2], [1], [3.0]), {"rating_range": (1, 5)}, "columns of one length"),
        (([1], [1], [9.0]), {"rating_range": (1, 5)}, "row 0"),
        (([1, 1], [1, 1], [3.0, 4.0]), {"rating_range": (1, 5)}, "row 1: user 1 has already rated item 1"),
        (([1.5], [1], [3.0]), {"rating_range": (1, 5)}, "ids of users must be whole numbers or texts"),
        ((["a"], ["b"], ["good"]), {"rating_range": (1, 5)}, "must be numbers"),
        (Frame(user=[1], item=[1]), {"rating_range": (1, 5)}, "no column 'rating', only user, item"),
        (17, {}, "ratings must be a path, a data frame"),
    ],
)
def test_ratings_in_memory_that_cannot_be_used_say_why(
    source: Any, keywords: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(fedboard.errors.InputError, match=sentence):
        fedboard.load_ratings(source, **keywords)


@pytest.mark.slow
def test_a_sweep_gives_rows_for_a_data_frame(tmp_path: Path) -> None:
    quick = {key: value for key, value in QUICK.items() if key not in ("report", "baselines")}
    users, items, ratings = columns()

    swept = fedboard.sweep(
        algorithms=["residual", "item-mean"],
        epsilons=[1, 8],
        data=(users, items, ratings),
        rating_range=(1, 5),
        out=tmp_path / "sweep",
        **quick,
    )

    assert [(row["algorithm"], row["epsilon"]) for row in swept.rows] == [
        *(("residual", 1.0), ("residual", 8.0), ("item-mean", None))
    ]
    assert all(row["test_rmse"] > 0 for row in swept.rows)
    assert swept.failed == ()
    assert swept.report is not None
    assert repr(swept).startswith("<Sweep: 3 runs, 0 failed; ")
    with pytest.raises(fedboard.errors.InputError, match="jobs=1"):
        fedboard.sweep(data=(users, items, ratings), rating_range=(1, 5), out=tmp_path / "two", jobs=2)


SCRIPT = """
import fedboard
{guard}
{indent}quick = dict(workers=2, rank=2, rounds=1, baselines=False, report=False, kernels="numpy")
{indent}run = fedboard.simulate(data={data!r}, epsilon=5.0, out={out!r}, **quick)
{indent}print(run)
"""


@pytest.mark.slow
def test_workers_need_a_guard_in_a_file_and_say_so(tmp_path: Path) -> None:
    guarded = SCRIPT.format(
        guard='if __name__ == "__main__":', indent="    ", data=MADE_UP, out=str(tmp_path / "a")
    )
    plain = SCRIPT.format(guard="", indent="", data=MADE_UP, out=str(tmp_path / "b"))
    (tmp_path / "guarded.py").write_text(guarded)
    (tmp_path / "plain.py").write_text(plain)

    good, bad = (
        subprocess.run(
            [sys.executable, tmp_path / name], capture_output=True, text=True, timeout=300, check=False
        )
        for name in ("guarded.py", "plain.py")
    )

    assert good.returncode == 0, good.stderr
    assert good.stdout.startswith("<Run ")
    assert bad.returncode != 0
    assert "if __name__ == '__main__':" in bad.stderr
