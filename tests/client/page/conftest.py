"""One signed mirror for all tests of pages."""

from pathlib import Path

import pytest

from tests.client.page.pages import Signed


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="session")
def signed(folder: Path) -> Signed:
    return Signed(folder / "signed")
