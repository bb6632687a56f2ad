"""Flower is imported once, before warnings become errors: its own imports use names that Click has deprecated."""

import warnings

import pytest

from tests.pictures import leave_out

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.cli.build
    import flwr.clientapp
    import flwr.serverapp
    import flwr.supercore.control  # noqa: F401


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than everything else in a run this small."""
    leave_out(monkeypatch)
