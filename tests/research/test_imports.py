"""Research builds on the face of the package and on the modules that the guide names for parts of one's own."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = "## Modules for parts of one's own"
EXCEPTIONS = {
    "fedboard.cli": "run.py is a command, and takes data, tells of progress and fails as all commands do",
    "fedboard.common.kernels": "exact solves, and the compiled loops of the solver of Liu et al.",
    "fedboard.common.contribution_bounding.participation": "disjoint cohorts draw no coins",
    "fedboard.common.protocols.sums.exact": "regressions send factored sums by hand",
    "fedboard.common.protocols.sums.row_bounds": "regressions are refused as an aggregator refuses",
    "fedboard.common.queries.quantile": "which quantile is meant, as an exact ratio",
    "fedboard.common.algorithms.adadpsgd": "appendix C runs AdaDPSGD on another problem",
    "fedboard.common.algorithms.langevin": "figure 7 compares with the algorithm, and trims as it does",
    "fedboard.common.algorithms.shared.preparation": "the curve says how the level's share falls with people",
}
"""Modules of the inside, or folders of them, that research still needs, and why; to become fewer."""


def public() -> dict[str, bool]:
    """The modules that the guide names, and whether what is in them counts too."""
    text = (ROOT / "docs" / "guide" / "extending.md").read_text(encoding="utf-8").partition(SECTION)[2]
    found = re.findall(r"`((?:common|server|simulations)\.[a-z_.]+)`( and what is in it)?", text)
    return {f"fedboard.{name}": bool(inner) for name, inner in found}


def imported() -> dict[str, set[str]]:
    """Modules of the package that research imports, and where."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "research").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                whole = node.module == "fedboard.common"  # `from fedboard.common import kernels`
                names = [f"{node.module}.{alias.name}" for alias in node.names] if whole else [node.module]
            for name in names:
                if name.split(".")[0] == "fedboard":
                    found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def within(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}.")


def test_research_imports_the_face_and_what_the_guide_names() -> None:
    named = public()
    allowed = {"fedboard", *named}
    inside = {
        name: places
        for name, places in imported().items()
        if name not in allowed
        and not any(inner and within(name, place) for place, inner in named.items())
        and not any(within(name, place) for place in EXCEPTIONS)
    }
    assert inside == {}, "name the module in docs/guide/extending.md, or do without it"


def test_no_exception_is_there_that_nobody_needs() -> None:
    used = imported()
    assert [place for place in EXCEPTIONS if not any(within(name, place) for name in used)] == []


def test_modules_that_the_guide_names_are_there() -> None:
    assert len(public()) > 30
    assert [name for name in public() if find_spec(name) is None] == []
