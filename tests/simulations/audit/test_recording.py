"""Writing down what leaves: whole releases come back, and rows that leave twice are noticed."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.errors import PrivacyError
from fedboard.simulations.audit.pipeline import Recorder

NAME = "round-1/linear"


def itself(recorder: Recorder) -> Recorder:
    return recorder


def of_a_worker(recorder: Recorder) -> Recorder:
    """As a worker gets it, with a job."""
    sent: Recorder = pickle.loads(pickle.dumps(recorder))
    return sent


WRITERS = pytest.mark.parametrize("writer", [itself, of_a_worker])


@WRITERS
def test_blocks_in_any_order_make_the_release(tmp_path: Path, writer: Callable[[Recorder], Recorder]) -> None:
    values, recorder = np.arange(20.0).reshape(10, 2), Recorder(tmp_path)
    for start, stop in ((7, 10), (0, 3), (3, 7)):
        block = values[start:stop].copy()
        writer(recorder).write(NAME, start, block)
        block[:] = 0.0  # what is done to it later is not what left

    found = recorder.read(NAME)

    assert found is not None
    np.testing.assert_array_equal(found.values, values)
    assert found.starts == (0, 3, 7)


def test_what_nobody_read_has_not_left(tmp_path: Path) -> None:
    assert Recorder(tmp_path).read(NAME) is None


@WRITERS
@pytest.mark.parametrize("blocks", [[(0, 3), (0, 3)], [(0, 3), (2, 5)], [(0, 3), (4, 5)], [(1, 3)]])
def test_rows_that_leave_twice_or_not_at_all_are_noticed(
    tmp_path: Path, blocks: list[tuple[int, int]], writer: Callable[[Recorder], Recorder]
) -> None:
    recorder = Recorder(tmp_path)
    for start, stop in blocks:
        writer(recorder).write(NAME, start, np.zeros((stop - start, 2)))

    with pytest.raises(PrivacyError, match="twice or left out"):
        recorder.read(NAME)


def test_rows_of_a_worker_and_of_this_process_are_told_apart_by_nobody(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write(NAME, 0, np.zeros((2, 2)))
    of_a_worker(recorder).write(NAME, 2, np.ones((1, 2)))

    found = recorder.read(NAME)
    assert found is not None
    assert found.values.tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]

    of_a_worker(recorder).write(NAME, 0, np.zeros((2, 2)))
    with pytest.raises(PrivacyError, match="twice or left out"):
        recorder.read(NAME)
