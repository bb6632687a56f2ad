"""One sound release, one budget and one ledger, to change one thing at a time in."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.releases import a_release

SOUND = a_release(
    name="items-1",
    rows=200,
    width=10,
    grid_step=2.0**-8,
    l2_bound=1000,
    noise_multiplier=20.0,
    covers="sum of weighted residual gradients",
)


@pytest.fixture
def make_release() -> Callable[..., GaussianRelease]:
    return lambda **changes: replace(SOUND, **changes)


@pytest.fixture
def make_event(make_release: Callable[..., GaussianRelease]) -> Callable[..., dict[str, Any]]:
    def make(**changes: Any) -> dict[str, Any]:
        return {**make_release(**changes).event(), "noise": SecureNoise.label, "private": True}

    return make


@pytest.fixture
def budget() -> Budget:
    return Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


@pytest.fixture
def ledger(tmp_path: Path, budget: Budget) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "ledger.sqlite", budget) as opened:
        yield opened
