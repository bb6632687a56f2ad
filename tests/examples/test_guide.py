"""What the guide says is in the repository is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_guide_names_exists() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }

    for page in (ROOT / "docs").rglob("*.md"):
        named = set(re.findall(r"\btest(?:_[a-z0-9]+){4,}", page.read_text(encoding="utf-8")))
        assert named <= defined, f"{page} names {sorted(named - defined)}"


def test_every_link_between_pages_leads_to_a_file() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in link and not link.startswith("mailto:"):
                assert (page.parent / link).exists(), f"{page} links to {link}"
