"""Benchmarks stand where the documents say, and find their parts where these stand."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
NAMED = re.compile(r"(?<!tests/)benchmarks/[\w/]+\.(?:py|toml)")


def _documents() -> list[Path]:
    """What tells people to run something: pages, and what the programs themselves say of their use."""
    pages = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]  # which tells of what is gone
    return [*pages, *(ROOT / "docs").rglob("*.md"), *BENCHMARKS.rglob("*.py")]


def test_every_benchmark_that_a_document_names_is_there() -> None:
    told = {str(path): path.read_text(encoding="utf-8") for path in _documents()}
    named = {(page, name) for page, text in told.items() for name in NAMED.findall(text)}

    assert len(named) > 20
    assert [(page, name) for page, name in sorted(named) if not (ROOT / name).is_file()] == []
