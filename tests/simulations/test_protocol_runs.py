"""Whole simulations under protocols: what is booked, what is lost, and who is trusted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.simulate import RunResult, simulate

pytestmark = pytest.mark.slow

SECURE = {"protocol": "secure-sum", "clients": 12, "dropout": 0.2}


def a_config(**run: Any) -> SimulationConfig:
    return parse_config(
        {
            "algorithm": "residual",
            "seed": 2,
            "data": {"synthetic": {"n_users": 120, "n_items": 60, "mean_ratings_per_user": 15}},
            "settings": {"rank": 2, "rounds": 2},
            "run": {"baselines": False, "evaluate_rounds": False, **run},
        }
    )


def a_run(path: Path, **run: Any) -> RunResult:
    return simulate(a_config(**run), path, report=False)


def assert_same_board(one: Board, other: Board) -> None:
    assert set(one.arrays) == set(other.arrays)
    for name, values in one.arrays.items():
        np.testing.assert_array_equal(values, other.arrays[name], err_msg=name)


def test_a_certificate_says_who_is_trusted_and_who_was_lost(tmp_path: Path) -> None:
    certificate = a_run(tmp_path, **SECURE).certificate

    assert "numbers masked to look uniform" in " ".join(certificate.trust)
    assert {
        "A share of 0.2 of the clients was lost in each round on purpose, as drawn from the seed.",
        "How many users and clients there are is public: the room for their sums, how far these are truncated, "
        "and each client's part of the noise follow from it.",
    } <= set(certificate.assumptions)


def test_shares_of_the_noise_are_booked_and_a_run_goes_on_under_the_same_protocol_only(
    tmp_path: Path,
) -> None:
    done = a_run(tmp_path, protocol="distributed-dp", clients=12)

    assert "shares" in done.certificate.to_json()
    with pytest.raises(InputError, match="another 'run'"):
        simulate(a_config(protocol="secure-sum", clients=12), tmp_path, resume=True, report=False)
    again = simulate(a_config(protocol="distributed-dp", clients=12), tmp_path, resume=True, report=False)
    assert_same_board(done.board, again.board)


def test_a_round_with_too_few_clients_is_paid_for_and_skipped(tmp_path: Path) -> None:
    """Of four clients one is lost; where that is at its contribution or before, three are too few."""
    settings = {"survivors": 4}
    run = a_run(
        tmp_path,
        protocol="secure-sum",
        clients=4,
        dropout=0.25,
        protocol_settings=settings,
    )

    lost = [version for version in range(1, run.board.version) if _same(tmp_path, version)]
    assert lost
    assert run.certificate.claim.epsilon == pytest.approx(5.0, rel=1e-6), "lost rounds are paid for"


def _same(path: Path, version: int) -> bool:
    one, other = (Board.load(path / "boards" / f"board-{v:04d}.board") for v in (version, version + 1))
    return all(np.array_equal(values, other.arrays[name]) for name, values in one.arrays.items())
