"""The table of codes has each that a command, a reader or a fleet can give, with its meaning, and no other."""

import warnings
from pathlib import Path

import pytest

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.boards.refusals import FeedCode
from fedboard.common.messages.refusals import Refusal

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Flower imports uses what others will take away
    from fedboard.client.participation.connection import Trouble

PAGE = (Path(__file__).parents[2] / "docs" / "codes.md").read_text(encoding="utf-8")
TABLES = {
    "Exit codes of commands": {str(code.value) for code in ExitCode},
    "Boards that are not taken": {code.value for code in FeedCode},
    "Questions and answers that are not taken": {code.value for code in Refusal},
    "A device without work": {trouble.value for trouble in Trouble},
}


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("title", TABLES)
def test_each_code_stands_there_once_with_what_to_do(title: str) -> None:
    found = rows(title)

    assert sorted(cells[0].strip("`") for cells in found) == sorted(TABLES[title])
    assert [cells for cells in found if len(cells) != 3 or not all(cells)] == []


def test_exit_codes_mean_what_help_says() -> None:
    told = {cells[0]: cells[1] for cells in rows("Exit codes of commands")}

    assert told == {str(code.value): code.meaning for code in ExitCode}
