"""One browser for all tests of pages, and one signed mirror."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.page.browser import Page, opened
from tests.client.page.pages import Signed


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="session")
def page(folder: Path) -> Iterator[Page]:
    with opened(folder / "profile") as found:
        yield found


@pytest.fixture(scope="session")
def signed(folder: Path) -> Signed:
    return Signed(folder / "signed")
