"""``fedboard board page``, from the command line: what it writes of which boards, and what it refuses."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.server.publishing.signing import SigningKey
from tests.cli.conftest import Command
from tests.common.boards.boards import chain, first_board, keys, signed_mirror, write_boards


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_boards(tmp_path / "films" / "boards", chain(2))
    return tmp_path / "films"


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    read: dict[str, Any] = json.loads(found[1])
    return read


def test_a_run_becomes_one_file_that_names_no_other(fedboard: Command, run: Path, tmp_path: Path) -> None:
    page = tmp_path / "films.html"

    result = fedboard("board", "page", run, "--out", page)

    assert result.exit_code == 0, result.output
    assert "the board inside; open it in a browser" in result.output
    text, data = page.read_text(encoding="utf-8"), data_of(page)
    assert "<title>films: your own recommendations</title>" in text
    assert "default-src 'none'" in text
    assert "connect-src 'none'" in text
    assert not re.search(r'<(?:script|link|img|iframe)[^>]*\b(?:src|href)="(?!data:)', text)
    assert data["board"]["signed"] is None
    assert data["pins"] == {"keys": [], "threshold": 1, "witnesses": [], "cosignatures": 0}


def test_of_a_mirror_the_page_has_what_was_signed(fedboard: Command, tmp_path: Path) -> None:
    private, public = keys(tmp_path / "keys")
    mirror = signed_mirror(tmp_path, chain(3), key=SigningKey.read(private))
    page = tmp_path / "page.html"

    result = fedboard("board", "page", mirror.folder, "--key", public, "--out", page)

    assert result.exit_code == 0, result.output
    data = data_of(page)
    entry = data["board"]
    assert entry["signed"]["content"] == mirror.published()[-1].signed.content
    assert [json.loads(signed["content"])["version"] for signed in entry["earlier"]] == [3, 2]
    assert data["pins"]["keys"] == [SigningKey.read(private).public.raw.hex()]


def test_a_simulation_says_so_where_its_page_is_written(fedboard: Command, tmp_path: Path) -> None:
    run = write_boards(tmp_path / "run", chain(1, noise=(SeededNoise(0),)))

    result = fedboard("board", "page", run, "--out", tmp_path / "page.html")

    assert result.exit_code == 0
    assert result.output.startswith("NOT PRIVATE: the noise can be reproduced from its seed.")


def test_what_cannot_be_a_page_is_refused_and_nothing_is_written(
    fedboard: Command, run: Path, tmp_path: Path
) -> None:
    private, _ = keys(tmp_path / "keys")
    _, other = keys(tmp_path / "other")
    mirror = signed_mirror(tmp_path / "signed", chain(2), key=SigningKey.read(private)).folder
    board = first_board()
    own = write_boards(tmp_path / "own", [replace(board, task="somebodys-own")])
    page = tmp_path / "page.html"
    refused = {
        (mirror,): "boards of a mirror are signed; give --key",
        (mirror, "--key", other): "not signed by the pinned key",
        (run, "--witness", "ab" * 32): "--witness goes with --key",
        (run, "--key", other, "--witness", "ab" * 32): "--witness goes with boards of a mirror",
        (own,): "the page does not know the own model of boards that the task 'somebodys-own' made",
        (tmp_path / "nowhere",): "no board can be read there",
    }
    result = fedboard("board", "page", run, "--out", tmp_path / "nowhere" / "page.html")
    assert (result.exit_code, "there is no such folder" in result.output) == (2, True)

    for arguments, sentence in refused.items():
        result = fedboard("board", "page", *arguments, "--out", page)
        assert result.exit_code != 0, arguments
        assert sentence in " ".join(result.output.split()), result.output
        assert not page.exists()
