"""The size of the project: each folder stays within its budget of ``size_budget.toml``, which only falls.

Counted are lines of Python that are neither blank, comment nor docstring, so that explaining costs nothing; lines
of scripts and templates that are neither blank nor a comment; files of Python; and words of pages.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import click
import pytest

ROOT = Path(__file__).parent.parent
PRODUCT = ("api", "cli", "client", "common", "server", "simulations")
SCRIPTS = {
    ".js",
    ".mjs",
    ".ts",
    ".html",
    ".css",
    ".j2",
    ".tmpl",
    ".sql",
    ".proto",
    ".sh",
    ".c",
    ".cc",
    ".rs",
    ".ipynb",
}
BUDGET = tomllib.loads(Path(__file__).with_name("size_budget.toml").read_text(encoding="utf-8"))
COLUMNS = ("code", "script", "words")


def code_lines(text: str) -> int:
    """Lines of Python without blanks, comments and docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else []:
            text_of = getattr(getattr(child, "value", None), "value", None)
            if isinstance(child, ast.Expr) and isinstance(text_of, str):
                docstrings.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and n not in docstrings for n, line in lines)


def script_lines(text: str) -> int:
    """Lines of JavaScript, HTML or CSS without blanks and whole-line comments."""
    lines = re.sub(r"/\*.*?\*/|<!--.*?-->", "", text, flags=re.DOTALL).splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("//") for line in lines)


COUNTED_BY = {
    ".py": ("code", code_lines),
    ".md": ("words", lambda text: len(text.split())),
    **dict.fromkeys(SCRIPTS, ("script", script_lines)),
}


@cache
def tracked() -> tuple[PurePosixPath, ...]:
    """All files that git knows, except hidden folders; those deleted and not committed are left out."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout: only tracked files are counted")
    paths = (PurePosixPath(name) for name in listed.decode().split("\0") if name)
    return tuple(path for path in paths if path.parts[0][0] != "." and (ROOT / path).is_file())


def counted() -> Iterator[tuple[PurePosixPath, str, int]]:
    """File, column, count of each that is counted."""
    for path in tracked():
        if path.suffix in COUNTED_BY:
            column, count = COUNTED_BY[path.suffix]
            yield path, column, count((ROOT / path).read_text(encoding="utf-8"))


def budget_of(path: PurePosixPath, column: str) -> str | None:
    """The budget that a file counts in: that of its folder, or of the nearest folder above that has one."""
    folders = [str(folder) for folder in path.parents]
    return next((folder for folder in folders if folder in BUDGET[column]), None)


@cache
def sizes() -> dict[str, Counter[str]]:
    """Column to budget to what is counted in it; ``product`` and ``files`` beside."""
    found: dict[str, Counter[str]] = {column: Counter() for column in (*COLUMNS, "total")}
    for path, column, count in counted():
        found[column][budget_of(path, column) or f"{path} (no budget)"] += count
        if path.parts[0] in PRODUCT:
            found["total"][f"product {column}"] += count
            found["total"]["product files"] += path.suffix == ".py"
        else:
            found["total"][f"{path.parts[0] if len(path.parts) > 1 else 'docs'} {column}"] += count
    return found


@pytest.mark.parametrize("column", [*COLUMNS, "total"])
def test_each_folder_is_within_its_budget(column: str) -> None:
    budget = BUDGET[column]
    passed = [
        f"{name} has {found:,} {column} of {budget.get(name, 0):,}: delete something"
        for name, found in sizes()[column].items()
        if found > budget.get(name, 0) and (column != "total" or name in budget)
    ]

    assert not passed, "\n".join(passed)


def test_no_budget_is_for_a_folder_that_is_not_there() -> None:
    for column in COLUMNS:
        gone = {folder for folder in BUDGET[column] if not (ROOT / folder).is_dir()}
        assert not gone, f"[{column}] has budgets of {sorted(gone)}: a budget goes with its folder"


def test_files_and_folders_can_be_read_at_a_glance() -> None:
    most = BUDGET["most"]
    product = [path for path in tracked() if path.parts[0] in PRODUCT]
    entries = Counter(path.parent for path in {p for path in product for p in (path, *path.parents[:-2])})
    lines = {path: (ROOT / path).read_bytes().count(b"\n") for path in product if path.suffix == ".py"}

    assert {str(path): n for path, n in lines.items() if n > most["lines of a file"]} == {}
    assert {str(path): n for path, n in entries.items() if n > most["entries of a folder"]} == {}
    assert {str(path) for path in entries if len(path.parts) > most["depth of a folder"]} == set()
    assert len([path for path in entries if path.parts]) <= most["folders"]


def leaves(command: click.Command) -> Iterator[click.Command]:
    """All commands that do something."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from leaves(command.commands[name])
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield command


def test_commands_and_options_can_be_learnt() -> None:
    from fedboard.cli.main import commands

    found = list(leaves(commands))
    options = [one for command in found for one in command.params if isinstance(one, click.Option)]

    assert len(found) <= BUDGET["most"]["commands"]
    assert len(options) <= BUDGET["most"]["options"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""About."""\n\nx = 1  # one\n# no\n', 1),
        ('def f():\n    """About.\n\n    More.\n    """\n    return """a\nb\n"""\n', 4),
        ("if x: pass\ny = lambda: 0\n", 2),
    ],
)
def test_explaining_costs_nothing(text: str, lines: int) -> None:
    assert code_lines(text) == lines
