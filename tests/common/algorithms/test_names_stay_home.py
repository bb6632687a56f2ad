"""An algorithm is known by its record: outside its folder nobody names it and nobody imports from it."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fedboard.common.algorithms.registry import ALGORITHMS, algorithm_names

ROOT = Path(__file__).parents[3]
FOLDERS = ("common", "client", "server", "simulations", "cli", "api")
FOLDERS_OF_ONE = tuple(name.replace("-", "_") for name in ALGORITHMS)
HOMES = tuple(f"common/algorithms/{folder}/" for folder in FOLDERS_OF_ONE)
"""An algorithm may build on another one's parts."""
ALLOWED = {
    "common/algorithms/registry.py": "the lines of each",
    "common/algorithms/representation/": "`residual` is a target of its alternation there, not the algorithm",
    "client/participation/config.py": "an example in the file that a device's owner edits",
    "cli/research/demo.py": "lays AdaDPALS beside the default, to show both",
}
NAME = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, algorithm_names()))})(?![\w-])")
EXAMPLES = re.compile(r"\s*Examples?:")


def spoken(nodes: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    """All texts but docstrings and the examples that help ends with."""
    silent = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command":
            silent.update(id(example) for example in node.args)
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in silent:
            continue
        if not EXAMPLES.match(node.value.removeprefix("\b")):
            yield node


def imported(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def told(text: str) -> list[str]:
    """Where a file speaks of one algorithm."""
    nodes = list(ast.walk(ast.parse(text)))
    homes = tuple(f"fedboard.common.algorithms.{folder}." for folder in FOLDERS_OF_ONE)
    found = [f"line {line} imports {name}" for line, name in imported(nodes) if f"{name}.".startswith(homes)]
    found += [
        f"line {node.lineno} says {NAME.search(node.value)}"
        for node in spoken(nodes)
        if NAME.search(node.value)
    ]
    return found


@pytest.mark.slow
def test_nobody_else_names_an_algorithm_or_imports_from_one() -> None:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    elsewhere = [path for path in paths if not str(path.relative_to(ROOT)).startswith((*HOMES, *ALLOWED))]

    found = {str(path.relative_to(ROOT)): told(path.read_text(encoding="utf-8")) for path in elsewhere}

    assert {path: lines for path, lines in found.items() if lines} == {}
    assert len(elsewhere) > 300
