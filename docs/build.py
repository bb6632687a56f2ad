"""Build the site of the documentation; a broken link, a missing reference or a page without a place is an error.

usage: python docs/build.py                  # into the folder site/; open site/index.html
       python docs/build.py --out FOLDER     # somewhere else; what an earlier build left there is replaced
       python docs/build.py --draft          # in seconds: notebooks are shown and not run
       python docs/build.py --notebooks first-run   # the first page and these notebooks are run, the others shown

Needs the extra `docs`: pip install -e '.[all,docs]'. The site needs no server and asks no other host for anything.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from website.checks import faults
from website.navigation import NavigationError, navigation
from website.staging import DOCS, OWN, ROOT, packages, show_code, stage

NEEDED = ("jupytext", "markdown_it", "mkdocstrings_handlers", "zensical")
MARK = ".built-by-fedboard"
"""A file in every site, so that nothing else is ever replaced."""


class BuildError(Exception):
    """The site cannot be built as it is."""


def build(out: Path, *, draft: bool, notebooks: Sequence[str] | None = None) -> int:
    """Build the site; the number of its pages.

    Args:
        out: the folder; replaced if an earlier build made it.
        draft: whether notebooks, and the first page, stay without output.
        notebooks: names of those that are run; None: all.

    Raises:
        BuildError: something is missing or broken; an earlier site stays as it is.
    """
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise BuildError(f"{out} is not empty and no site: name another folder with --out")
    with tempfile.TemporaryDirectory(prefix="fedboard-site-") as name:
        there = Path(name)
        run = None if draft else _run(there, notebooks)
        try:
            _stage(there / "pages", run)
            _configure(there)
        except (FileNotFoundError, NavigationError) as error:
            raise BuildError(str(error)) from error
        packages(there / "source")
        _generate(there)
        site = there / "site"
        if wrong := faults(site):
            raise BuildError("\n".join(wrong))
        (site / MARK).touch()
        if out.exists():
            shutil.rmtree(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(site, out)
    return len(list(out.rglob("*.html")))


def _run(there: Path, notebooks: Sequence[str] | None) -> Path:
    """Run these notebooks and the lines of the first page; where their output is."""
    names = [] if notebooks is None else ["first-page", *notebooks]
    command = [sys.executable, "-W", "error", "-m", "website.notebooks", "--out", str(there / "run"), *names]
    done = subprocess.run(command, cwd=DOCS, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        raise BuildError(done.stdout + done.stderr)
    return there / "run"


def _stage(pages: Path, run: Path | None) -> None:
    """All that the generator reads."""
    from website.first_page import board_page, framed
    from website.notebook_pages import stage_notebooks

    shown: set[Path] = set()
    stage(pages, shown)
    stage_notebooks(pages, run, shown)
    for file in shown:
        show_code(file, pages)
    if run is not None:
        board_page(run / "first-page" / "films", pages / "board.html")
        first = pages / "index.md"
        first.write_text(framed(first.read_text(encoding="utf-8")), encoding="utf-8")


def _configure(there: Path) -> None:
    """The generator's configuration, with the navigation and the footer."""
    pages = [page.relative_to(there / "pages").as_posix() for page in (there / "pages").rglob("*.md")]
    project = f'nav = {navigation(OWN / "navigation.toml", pages)}\ncopyright = "{_footer()}"\n'
    written = (OWN / "zensical.toml").read_text(encoding="utf-8")
    (there / "zensical.toml").write_text(
        written.replace("[project]\n", f"[project]\n{project}", 1), encoding="utf-8"
    )
    shutil.copytree(OWN / "overrides", there / "overrides")


def _footer() -> str:
    """Which fedboard this is about."""
    try:
        number = version("fedboard")
    except PackageNotFoundError:
        number = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return f"fedboard {number} &middot; Apache-2.0 &middot; this site asks no other host for anything"


def _generate(there: Path) -> None:
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=there, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    told = done.stdout + done.stderr
    if done.returncode != 0 or "Warning" in told:
        raise BuildError(told)


def main() -> int:
    """Build, and say where the site is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("site"), help="folder of the site (default: site)")
    parser.add_argument("--draft", action="store_true", help="do not run the notebooks")
    parser.add_argument("--notebooks", nargs="+", metavar="NAME", help="run only these (default: all)")
    asked = parser.parse_args()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"missing: {', '.join(missing)}; pip install -e '.[all,docs]'", file=sys.stderr)
        return 2
    try:
        pages = build(asked.out, draft=asked.draft, notebooks=asked.notebooks)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{pages} pages: {asked.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
