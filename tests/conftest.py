"""What holds for all tests: no example of a property is timed, and those files that mostly wait come first, so that
others compute meanwhile (``pytest -n 3``).
"""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fedboard", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("fedboard")

WAITING = (
    "server/fleet/test_deployment.py",
    "examples/test_fleet.py",
    "cli/test_crashes.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the files that wait to the front; the others keep their order."""
    first = {Path(__file__).parent / name: place for place, name in enumerate(WAITING)}
    items.sort(key=lambda item: first.get(item.path, len(first)))
