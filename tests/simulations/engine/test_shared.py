"""Arrays that several processes see: what a worker maps stays bounded, however many engines it serves."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from fedboard.simulations.engine import shared
from fedboard.simulations.engine.shared import SharedArray, SharedArrays


def handed_over(array: SharedArray) -> SharedArray:
    """The handle as a worker gets it, with a job."""
    handle: SharedArray = pickle.loads(pickle.dumps(array))
    return handle


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts file descriptors through /proc")
def test_a_worker_that_serves_many_engines_does_not_keep_all_of_their_arrays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared, "_LOOKED_AFTER", 8)
    monkeypatch.setattr(shared, "_mapped", {})
    before = len(os.listdir("/proc/self/fd"))

    for number in range(40):
        owner = SharedArrays()
        array = owner.copy_of(np.full(3, number))
        assert handed_over(array).array.tolist() == [number] * 3
        owner._memories[0].unlink()  # as another process frees it: nobody tells this one
        owner._memories[0].close()

    assert len(shared._mapped) <= 8
    assert len(os.listdir("/proc/self/fd")) <= before + 16, "40 arrays were mapped"
    shared._let_go()
