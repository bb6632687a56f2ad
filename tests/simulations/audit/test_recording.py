"""Writing down what leaves: whole releases come back, and rows that leave twice are noticed."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.common.errors import PrivacyError
from fedboard.simulations.audit.pipeline import Recorder

NAME = "round-1/linear"


def test_blocks_in_any_order_make_the_release(tmp_path: Path) -> None:
    values, recorder = np.arange(20.0).reshape(10, 2), Recorder(tmp_path)
    for start, stop in ((7, 10), (0, 3), (3, 7)):
        block = values[start:stop].copy()
        recorder.write(NAME, start, block)
        block[:] = 0.0  # what is done to it later is not what left

    found = recorder.read(NAME)

    assert found is not None
    np.testing.assert_array_equal(found.values, values)
    assert found.starts == (0, 3, 7)


def test_what_nobody_read_has_not_left(tmp_path: Path) -> None:
    assert Recorder(tmp_path).read(NAME) is None


@pytest.mark.parametrize("blocks", [[(0, 3), (0, 3)], [(0, 3), (2, 5)], [(0, 3), (4, 5)], [(1, 3)]])
def test_rows_that_leave_twice_or_not_at_all_are_noticed(
    tmp_path: Path, blocks: list[tuple[int, int]]
) -> None:
    recorder = Recorder(tmp_path)
    for start, stop in blocks:
        recorder.write(NAME, start, np.zeros((stop - start, 2)))

    with pytest.raises(PrivacyError, match="twice or left out"):
        recorder.read(NAME)
