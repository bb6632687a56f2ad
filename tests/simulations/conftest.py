"""Runs that are simulated for tests."""

import pytest

from tests.pictures import leave_out


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the report empty: drawing takes longer than everything else in a run this small."""
    leave_out(monkeypatch)
