"""The protocol that the guide writes. The contract test holds it to its word; here the page and the command do."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board

ROOT = Path(__file__).parents[2]
TINY = (
    *(
        "--data",
        "synthetic",
        "--set",
        "run.kernels=numpy",
        "--set",
        "settings.rank=3",
        "--rounds",
        "1",
        "--no-baselines",
        "--no-report",
    ),
    *("--set", "data.synthetic.n_users=300", "--set", "data.synthetic.n_items=60"),
)


def simulated(out: Path, protocol: str) -> tuple[Mapping[str, FloatArray], str]:
    """The last board of a tiny run by five clients, and what its certificate says of trust."""
    words = ["simulate", *TINY, "--protocol", protocol, "--set", "run.clients=5", "--out", str(out)]
    ended = CliRunner().invoke(commands, words)
    assert ended.exit_code == 0, ended.output
    board = Board.load(sorted((out / "boards").glob("*.board"))[-1])
    return board.arrays, str(board.certificate)


@pytest.mark.slow
def test_a_run_with_it_makes_the_board_that_secure_sums_make(tmp_path: Path) -> None:
    own = f"{ROOT / 'examples' / 'additive_shares.py'}:AdditiveShares"

    arrays, certificate = simulated(tmp_path / "shares", own)
    expected, other = simulated(tmp_path / "masks", "secure-sum")

    assert arrays.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values)
    assert "The two servers must not collude" in certificate
    assert "The two servers must not collude" not in other
