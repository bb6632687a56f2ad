"""Signed mirrors for all tests of pages, whose script lets tests ask its modules."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedboard.client.page import writing
from fedboard.common.reports.filling import joined_script
from tests.client.page.pages import Signed, with_inside


@pytest.fixture(scope="session", autouse=True)
def inside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "joined_script", lambda folder: with_inside(joined_script(folder)))
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="session")
def signed(folder: Path, inside: None) -> Signed:
    return Signed(folder / "signed")


@pytest.fixture(scope="session")
def witnessed(folder: Path, inside: None) -> Signed:
    return Signed(folder / "witnessed", witnessed=True)
