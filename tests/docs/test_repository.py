"""What stands beside the code for whoever keeps, cites or mends it: workflow, citation, links between pages."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "node_modules" not in path.parts and "site" not in path.relative_to(ROOT).parts
)


def supported() -> list[str]:
    """Python versions that the package says it runs on."""
    return [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]


def test_the_workflow_runs_the_same_command_on_every_supported_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]

    assert jobs["run"]["strategy"]["matrix"]["python"] == supported()
    assert jobs["run"]["steps"][-1] == {"run": ".ci/run"}


def anchors(page: Path) -> set[str]:
    """As code hosts and site builders make them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", plain.lower().strip())))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", text):
        place, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / place).resolve() if place else page
        lost = anchor and target.suffix == ".md" and target.exists() and anchor not in anchors(target)
        if lost or not target.exists():
            broken.append(link)
    assert broken == []
