"""Peers: everybody gets the job that is stated, the judge counts rightly, and what cannot run is reported."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.simulations.datasets import Triples

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RANK = 3


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers_parts" / "adapters"))


@pytest.fixture
def data() -> Any:
    """A dozen users, nine items; the last item is in no training row."""
    from peers_parts.jobs import Data

    rng = np.random.default_rng(1)
    rows = [np.sort(rng.choice(8, size, replace=False)).astype(np.int32) for size in [4, 5, 6] * 4]
    items = np.concatenate(rows)
    train = Cohort(
        indptr=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        items=items,
        ratings=rng.integers(2, 6, items.size).astype(np.float32),
        n_items=9,
    )
    free = [(user, min(set(range(8)) - set(row.tolist()))) for user, row in enumerate(rows)]
    users, held_out = np.array(free, dtype=np.int32).T
    test = Triples(users=users, items=held_out, values=np.full(users.size, 4.0, np.float32))
    return Data(name="tiny", train=train, test=test, rating_range=(1.0, 5.0))


def made(kind: str, data: Any, place: Path) -> Any:
    from peers_parts.jobs import make_job

    return make_job(kind, data, rank=RANK, epochs=2, place=place)


def read(folder: Path) -> Any:
    from harness import read_job

    return read_job(folder, {}, 1)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_our_row_solves_the_stated_systems_and_the_judge_counts_the_stated_objective(
    kind: str, data: Any, tmp_path: Path
) -> None:
    import ours_als_row as row
    from peers_parts.judge import judged

    job = made(kind, data, tmp_path)
    library, seen = row.load(), read(job.folder)
    found, _ = row.fit(library, seen, row.prepare(library, seen))
    np.savez(tmp_path / "result.npz", **found)
    users, items = found["users"].astype(np.float64), found["items"].astype(np.float64)
    present = np.zeros((job.train.n_users, job.train.n_items))
    present[seen.user, seen.item] = 1.0
    labels, spec = np.zeros_like(present), job.spec
    labels[seen.user, seen.item] = seen.rating - spec["mean"] if kind == "explicit" else 1.0
    weights = present if kind == "explicit" else 1.0 + (spec["confidence"] - 1.0) * present
    counts = (present.sum(axis=1), present.sum(axis=0)) if kind == "explicit" else (1.0, 1.0)
    ridge = [
        np.broadcast_to(spec["ridge"] * count, size)
        for count, size in zip(counts, present.shape, strict=True)
    ]

    for user in range(job.train.n_users):
        system = items.T @ (weights[user][:, None] * items) + ridge[0][user] * np.eye(RANK)
        right = items.T @ (weights[user] * labels[user])
        assert users[user] == pytest.approx(np.linalg.solve(system, right), abs=1e-4)

    value = np.sum(weights * (labels - users @ items.T) ** 2)
    value += np.sum(ridge[0][:, None] * users**2) + np.sum(ridge[1][:, None] * items**2)
    assert judged(job, tmp_path / "result.npz")["objective"] == pytest.approx(value, rel=1e-5)


def test_the_plain_round_sums_what_our_devices_send(data: Any, tmp_path: Path) -> None:
    import ours_round_row as row
    import plain_round as plain

    from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE

    seen = read(made("round", data, tmp_path).folder)
    task, board, *_ = row.started(seen)
    cohort = row.prepare(None, seen)
    sent = task.contribute(cohort, board, task.requests(board))
    spec, who = seen.spec, cohort.user_of_entry()
    vectors = sent.vectors[who] * (spec["clip_norm"] / VECTOR_BOUND)
    weights, labels = sent.weights / WEIGHT_ONE, sent.responses * (spec["label_bound"] / RESPONSE_BOUND)
    linear = np.zeros((cohort.n_items, RANK))
    np.add.at(linear, cohort.items, (weights * labels)[:, None] * vectors)
    squares = np.zeros((cohort.n_items, RANK, RANK))
    np.add.at(squares, cohort.items, weights[:, None, None] * vectors[:, :, None] * vectors[:, None, :])

    users = plain.rows_of(seen.row_bounds(), seen.item, seen.rating)
    quadratic, plain_linear = plain.sums_of(users, plain.first_board(spec, seen.arrays))

    rows, columns, scale = plain.pairs(RANK)
    assert np.abs(linear).max() > 0.1
    assert plain_linear == pytest.approx(linear, abs=5e-3)
    assert quadratic == pytest.approx(squares[:, rows, columns] * scale, abs=5e-3)


def test_judge_refuses_what_is_not_finite_only_where_there_were_ratings(data: Any, tmp_path: Path) -> None:
    from peers_parts.judge import NotFiniteError, judged

    job, result = made("explicit", data, tmp_path), tmp_path / "result.npz"
    users, items = np.zeros((12, RANK), np.float32), np.zeros((9, RANK), np.float32)
    items[8] = np.nan  # nobody rated it
    np.savez(result, users=users, items=items)
    mean = float(np.mean(data.train.ratings, dtype=np.float64))
    assert judged(job, result)["rmse"] == pytest.approx(abs(mean - 4.0))

    items[0] = np.nan
    np.savez(result, users=users, items=items)
    with pytest.raises(NotFiniteError, match="an item's"):
        judged(job, result)


@pytest.mark.slow
def test_what_does_not_install_is_reported_and_the_rest_runs(tmp_path: Path) -> None:
    import peers

    not_a_folder, file = tmp_path / "taken", tmp_path / "found.json"
    not_a_folder.write_text("")
    arguments = [
        "--data",
        "synthetic-small",
        "--kinds",
        "explicit",
        "--ranks",
        "2",
        "--epochs",
        "2",
        "--repeats",
        "1",
    ]
    arguments += ["--peers", "libmf", "--environments", str(not_a_folder), "--json", str(file)]
    assert peers.main(arguments) == 0

    found = json.loads(file.read_text())
    assert found["skipped"]["libmf"]["step"] == "install"
    assert str(not_a_folder) in found["skipped"]["libmf"]["reason"]
    ours = (
        found["seconds"],
        found["cpu_seconds"],
        found["peak_memory_mb"],
        found["quality"],
        found["headline"],
    )
    assert all(set(numbers) == {"ours-explicit"} for numbers in ours)
    assert found["headline"]["ours-explicit"] == "explicit.synthetic-small.d2"
    assert found["seconds"]["ours-explicit"] > 0
    assert found["peak_memory_mb"]["ours-explicit"] > 10
    assert 0.5 < found["quality"]["ours-explicit"]["rmse"] < 1.5


def test_ratio_is_theirs_over_ours_of_the_same_job_and_the_last_job_is_the_headline() -> None:
    from peers_parts.report import assembled

    seconds = {"a.small": (2.0, 3.0), "a.large": (4.0, 30.0)}
    rows = [
        {"job": f"explicit.{job}", "peer": name, "seconds": {"fit": fit}, "cpu_seconds": {"fit": fit}}
        | {"peak_memory_mb": 1.0, "quality": {}}
        for job, fits in seconds.items()
        for name, fit in zip(("ours-explicit", "libmf"), fits, strict=True)
    ]
    found = assembled([], rows, {}, settings={})

    assert found["ratio"] == found["cpu_ratio"] == {"libmf": 7.5}
    assert found["headline"] == {"ours-explicit": "explicit.a.large", "libmf": "explicit.a.large"}
    assert found["seconds"] == {"ours-explicit": 4.0, "libmf": 30.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "asked"),
    [
        ("benchmarks/peers_parts/adapters", "import harness; print(harness.peak_memory_mb())"),
        ("benchmarks", "import process_tree; print(process_tree.own_peak_mib())"),
        (".", "from research import run; print(run._peak_mib())"),
    ],
)
def test_the_memory_of_a_process_is_not_that_of_who_started_it(place: str, asked: str) -> None:
    held = np.ones(50_000_000)  # 400 MB in this process
    command = [sys.executable, "-c", asked]
    told = subprocess.run(
        command, cwd=BENCHMARKS.parent / place, stdout=subprocess.PIPE, text=True, check=True
    ).stdout

    assert 5 < float(told) < held.nbytes / 1e6 / 2


def test_a_row_that_fails_says_its_last_words(tmp_path: Path) -> None:
    from peers_parts.environments import SkippedError
    from peers_parts.registry import HERE, Peer
    from peers_parts.running import run_row

    script = tmp_path / "fails.py"
    script.write_text("import sys\nsys.exit('no such solver')\n")
    peer = Peer("fails", HERE, str(script), "round", "")

    with pytest.raises(SkippedError) as refused:
        run_row(peer, Path(sys.executable), job=tmp_path, out=tmp_path, threads=1, most_seconds=60.0)
    assert (refused.value.step, refused.value.reason) == ("run", "no such solver")


def test_unknown_names_are_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    import peers

    with pytest.raises(SystemExit):
        peers.main(["--peers", "nobody"])
    assert "no such peer: nobody; there are ours-explicit" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        peers.main(["--peers", "ours-explicit", "--data", "/nowhere/ratings.csv"])
    assert "/nowhere/ratings.csv" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        peers.main(["--repeats", "0"])
    assert "--repeats must be > 0, got 0" in capsys.readouterr().err
    assert peers.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert "implicit-exact" in listed
    assert "flwr[simulation]>=1.41,<1.43" in listed
