"""Benchmarks stand where the documents say, and find their parts where these stand."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
ROOMS = {entry.stem for entry in BENCHMARKS.iterdir() if entry.is_dir() or entry.suffix == ".py"}
PARTS = {path.stem for path in BENCHMARKS.rglob("*.py")} - {"__init__"}
NAMED = re.compile(r"(?<!tests/)benchmarks/[\w/]+\.(?:py|toml)")


def _documents() -> list[Path]:
    """What tells people to run something: pages, and what the programs themselves say of their use."""
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *BENCHMARKS.rglob("*.py")]


def _imported(path: Path) -> set[str]:
    """Modules beside the product that a file imports, wherever in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = chain.from_iterable(
        [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for node in lines
    )
    return {name for name in names if not name.startswith(("fedboard", "tests"))}


def test_every_benchmark_that_a_document_names_is_there() -> None:
    named = {
        (path.name, name) for path in _documents() for name in NAMED.findall(path.read_text(encoding="utf-8"))
    }

    assert len(named) > 50
    assert [(page, name) for page, name in sorted(named) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_benchmarks_find_their_parts(room: str) -> None:
    """Every import of every one, also those within functions: hours may lie between its start and such a line."""
    path = BENCHMARKS / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    lost = [
        f"{file.relative_to(BENCHMARKS)}: {name}"
        for file in files
        for name in sorted(_imported(file))
        if name.split(".")[0] in ROOMS | PARTS and not _is_there(name, file)
    ]

    assert lost == []


def _is_there(module: str, imported_by: Path) -> bool:
    """Below ``benchmarks/``, or beside a file that is a program of its own."""
    places = [place.joinpath(*module.split(".")) for place in (BENCHMARKS, imported_by.parent)]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)
