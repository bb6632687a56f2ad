"""The command line on data so small that a run takes a fraction of a second."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.commands import fedboard as _run
from tests.pictures import leave_out

Command = Callable[..., Result]

TINY = (
    *("--data", "synthetic", "--set", "run.kernels=numpy"),
    *("--set", "data.synthetic.n_users=300", "--set", "data.synthetic.n_items=60"),
    *("--set", "data.synthetic.mean_ratings_per_user=15"),
    *("--set", "settings.rank=3", "--rounds", "2"),  # the last four: algorithms without factors take neither
)


@pytest.fixture
def fedboard() -> Command:
    """Run a command line in this process."""
    return _run


@pytest.fixture
def tiny() -> tuple[str, ...]:
    """Flags of a tiny problem."""
    return TINY


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the report empty: drawing takes longer than everything else in a run this small."""
    leave_out(monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run, uninterrupted, with baselines. To be read only."""
    out = tmp_path_factory.mktemp("finished") / "run"
    result = _run("simulate", *TINY, "--out", out)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="session")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run whose noise nobody can reproduce. To be read only."""
    out = tmp_path_factory.mktemp("secret") / "run"
    result = _run("simulate", *TINY, "--noise", "secure", "--no-baselines", "--no-report", "--out", out)
    assert result.exit_code == 0, result.output
    return out
