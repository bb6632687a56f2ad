"""Nodes that fail are asked again at once: what counts here is how often, not how long it takes."""

import pytest

from fedboard.server.fleet.rounds import asking


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(asking, "ASK_AGAIN_SECONDS", 0.02)
