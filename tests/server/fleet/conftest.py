"""Nobody waits long here for a node that comes, or fails and is asked again."""

import pytest

from fedboard.server.fleet.rounds import asking


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(asking, "ASK_AGAIN_SECONDS", 0.02)
