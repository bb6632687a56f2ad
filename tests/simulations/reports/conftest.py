"""A small run directory with every file that a run can leave behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.certificate import Guarantee, certify
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from tests.common.privacy.commitments import planned

EPSILON, DELTA = 3.0, 1e-5
SHARES = {"counts": 0.2, "round-1/items": 0.3, "round-2/items": 0.5}
UP = {"mean": 900, "p50": 512, "p95": 3072, "max": 20480}

WriteRun = Callable[..., Path]


def multipliers() -> dict[str, float]:
    return noise_multipliers(EPSILON, DELTA, SHARES)


def certificate(noise: NoiseSource) -> dict[str, Any]:
    events = [
        GaussianRelease(
            name=name,
            rows=50,
            width=4,
            layout="vector",
            grid_step=2.0**-10,
            l2_bound=4096,
            same_sign=False,
            adjacency=Adjacency.ADD_REMOVE,
            noise_multiplier=multiplier,
            covers="gradients <b>per item</b>",
        ).event()
        | noise.describe()
        for name, multiplier in multipliers().items()
    ]
    return certify(
        events,
        commitment=planned(events, epsilon=EPSILON, delta=DELTA),
        claim=Guarantee(epsilon=EPSILON, delta=DELTA, adjacency="add-remove"),
        trust=["The server sees each contribution for the length of one request."],
        assumptions=["Catalogue and settings are public."],
        dataset="synthetic, 1 000 users",
        board_digest="ab" * 32,
    ).to_dict()


def rounds() -> list[dict[str, Any]]:
    spent = list(multipliers().values())
    return [
        {
            "event": "round",
            "round": number,
            "stage": "preparation" if number == 0 else f"round {number}",
            "seconds": 1.5,
            "epsilon_spent": epsilon_of(DELTA, mu=compose(spent[: number + 1])),
            "delta": DELTA,
            "releases": [list(SHARES)[number]],
            "bytes_up_per_client": UP,
            "bytes_down_per_client": 4096,
            "metrics": {} if number == 0 else {"validation_rmse": 1.25 - 0.125 * number},
        }
        for number in range(3)
    ]


def final() -> dict[str, Any]:
    return {
        "event": "final",
        "metrics": {"test_rmse": 0.9517, "recall@20": 0.2345},
        "sliced": {"bucket_edges": [1, 5, 9, 20, 60, 400], "test_rmse": [1.31, 1.21, 1.11, 1.01, 0.91]},
        "by_activity": {
            "activity_edges": [3, 20, 31, 44, 80, 512],
            "test_rmse": [1.02, 0.98, 0.96, 0.94, 0.93],
            "test_mae": [0.9, 0.8, 0.7, 0.6, 0.5],
        },
        "neighbours": {"overlap@10": [0.05, 0.1, None, 0.3, 0.4]},
        "baselines": {"item mean": {"test_rmse": 0.9876}},
        "seconds_total": 121.0,
    }


@pytest.fixture(scope="session")
def write_run() -> WriteRun:
    """Write a complete run directory; keyword arguments replace or (None) leave out whole files."""

    def write(path: Path, *, noise: NoiseSource | None = None, **files: Any) -> Path:
        contents: dict[str, Any] = {
            "certificate": certificate(noise or SecureNoise()),
            "config": {"algorithm": "residual", "privacy": {"epsilon": EPSILON}, "note": "<script>"},
            "baselines": {"non-private ALS": {"test_rmse": 0.8642, "sliced": {"test_rmse": [1.2] * 5}}},
        }
        path.mkdir(parents=True)
        for name, content in (contents | {k: v for k, v in files.items() if k in contents}).items():
            if content is not None:
                (path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        lines = files.get("metrics", [*rounds(), final()])
        if lines is not None:
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (path / "metrics.jsonl").write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def seeded() -> NoiseSource:
    return SeededNoise(7)
