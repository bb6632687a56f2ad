"""The core that must be trusted: small enough to be read, and in need of nothing else of the house."""

import re
from pathlib import Path

from tests.test_architecture import ROOT, imports_of
from tests.test_size import code_lines

PAGE = ROOT / "docs" / "trusted-core.md"
FOLDERS = (
    "common/certificate",
    "common/contribution_bounding",
    "common/privacy",
    "common/protocols/sums",
)
FILES = (
    *("arrays", "board", "checks", "cohort", "contribution", "errors", "files", "normal_quantiles"),
    *("protection", "protocol", "task", "item_features"),
)
KERNELS = (
    *("backends", "blas_threads", "compiling", "draws", "packed", "sums", "threads"),
    *("numpy/sums", "numpy/noise"),
    *(f"compiled/{kernel}" for kernel in ("item_statistics", "noise", "pair_sums", "rows")),
    *(f"compiled/{part}" for part in ("panels", "vectors")),
)
MOST_LINES = 6_700


def core() -> set[str]:
    """Its files, as paths below the checkout."""
    found = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    found |= {f"common/{name}.py" for name in FILES} | {f"common/kernels/{name}.py" for name in KERNELS}
    return found | {"server/round.py", "server/runtime.py"}


def test_it_needs_nothing_else_of_the_house() -> None:
    imports = imports_of(ROOT)

    beyond = {path: sorted(imports[path] - core()) for path in core()}
    assert {path: others for path, others in beyond.items() if others} == {}


def test_it_can_be_read_in_a_day() -> None:
    lines = sum(code_lines((ROOT / path).read_text(encoding="utf-8")) for path in core())

    assert lines <= MOST_LINES, f"the trusted core has {lines} of {MOST_LINES} lines: put something elsewhere"


def test_the_page_names_what_is_in_it_and_nothing_that_is_not_there() -> None:
    told = PAGE.read_text(encoding="utf-8").partition("## Read it")[2].partition("Then the releases")[0]
    named = re.findall(r"`((?:common|server)/[\w/.]+)`", told)

    assert [place for place in named if not Path(ROOT / place).exists()] == []
    outside = [
        place for place in named if not any(f"{path}/".startswith(f"{place.rstrip('/')}/") for path in core())
    ]
    assert outside == []
