"""The folder that the generator reads: the pages of ``docs/``, and what they lead to.

Pages are written so that their links work on a code host. On the site a link to a file of code leads to a page that
shows the file, one to a notebook to the notebook with its output, and one to a folder to the folder's index.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from website.reference import commands_page, configuration_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OWN = DOCS / "website"
FROM_THE_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""File at the top of the repository -> its page."""
INSTEAD = {"README.md": "index.md"}
"""File of the repository -> the page that says it on the site."""
UNSEARCHED = {"decisions.md", "changelog.md", "successors.md"}
"""Pages that the site's search leaves out: they are about the project, not about a task."""
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n"
ASSETS = {".svg", ".png", ".json", ".csv", ".toml"}
"""Files beside the pages that are published as they are."""
LANGUAGES = {".py": "python", ".toml": "toml", ".proto": "protobuf", ".sh": "bash", ".js": "javascript"}
_LINK = re.compile(r"(\]\()([^()\s]+)(\))")
_FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)\s]+\.svg)\)$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:|#")


def stage(pages: Path, shown: set[Path]) -> None:
    """Write all pages but the notebooks into a new folder, their links those of the site.

    Args:
        pages: the folder; made.
        shown: files of code that pages lead to are added.

    Raises:
        FileNotFoundError: a page links to a file that is not in the repository.
    """
    pages.mkdir(parents=True)
    for source, target in _sources():
        there = pages / target
        there.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = (NOT_SEARCHED if target in UNSEARCHED else "") + apart(_with_pictures(source))
            there.write_text(on_the_site(text, source, target, shown), encoding="utf-8")
        else:
            shutil.copyfile(source, there)
    (pages / "commands.md").write_text(commands_page(), encoding="utf-8")
    (pages / "configuration.md").write_text(configuration_page(), encoding="utf-8")
    (pages / "assets").mkdir(exist_ok=True)
    for name in ("site.css", "scrolling.js", "search-from-disk.js"):
        shutil.copyfile(OWN / name, pages / "assets" / name)


def on_the_site(text: str, source: Path, target: str, shown: set[Path], made: Collection[str] = ()) -> str:
    """A page whose links are those of the site; files of code that it leads to are added to ``shown``.

    Args:
        text: Markdown.
        source: where it stands in the repository.
        target: where on the site, a relative path.
        shown: files that need a page.
        made: links to what is made beside the page, which stay.
    """

    def led(found: re.Match[str]) -> str:
        opening, link, closing = found.groups()
        if _ELSEWHERE.match(link):
            return str(found.group())
        path, _, anchor = link.partition("#")
        if path in made:
            return str(found.group())
        file = Path(os.path.normpath(source.parent / path))
        if not file.exists():
            raise FileNotFoundError(f"{source.relative_to(ROOT)} links to {link}, which is not there")
        there = page_of(file)
        if there.startswith("source/"):
            shown.add(file)
        relative = os.path.relpath(there, PurePosixPath(target).parent)
        return f"{opening}{relative}{'#' + anchor if anchor else ''}{closing}"

    parts, at = [], 0
    for code in _FENCE.finditer(text):
        parts += [_LINK.sub(led, text[at : code.start()]), code.group()]
        at = code.end()
    return "".join([*parts, _LINK.sub(led, text[at:])])


def page_of(file: Path) -> str:
    """Where a file of the repository is read on the site."""
    name = file.relative_to(ROOT).as_posix()
    if name in FROM_THE_ROOT | INSTEAD:
        return (FROM_THE_ROOT | INSTEAD)[name]
    if file.parent == DOCS / "notebooks" and file.suffix == ".py":
        return f"notebooks/{file.stem}.md"
    if file.is_relative_to(DOCS):
        inside = file.relative_to(DOCS).as_posix()
        if file.is_dir():
            return f"{inside}/index.md"
        if file.suffix == ".md" or file.suffix in ASSETS:
            return inside
    return f"source/{name}.md"


def packages(where: Path) -> None:
    """The package as it would be installed, of links: what the reference is read from.

    Args:
        where: the folder; made.
    """
    mapped = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    where.mkdir()
    for package, folder in mapped["tool"]["setuptools"]["package-dir"].items():
        there = where.joinpath(*package.split("."))
        if there.parent == where:  # the face: its files stand beside the folders of the others
            there.mkdir()
            for file in (ROOT / folder).glob("*.py"):
                (there / file.name).symlink_to(file)
        else:
            there.symlink_to(ROOT / folder)


def _sources() -> Iterator[tuple[Path, str]]:
    """Each file that is published, and where."""
    for file in sorted(DOCS.rglob("*")):
        if file.is_file() and OWN not in file.parents and (file.suffix == ".md" or file.suffix in ASSETS):
            yield file, file.relative_to(DOCS).as_posix()
    for name, target in FROM_THE_ROOT.items():
        if (ROOT / name).exists():
            yield ROOT / name, target


def apart(text: str) -> str:
    """A page with an empty line before each list and table: a code host needs none, the generator does."""
    from markdown_it import MarkdownIt  # of the extra: whoever lacks it is told by build.py

    lines = text.splitlines(keepends=True)
    blocks = MarkdownIt("commonmark").enable("table").parse(text)
    begins = {
        block.map[0]
        for block in blocks
        if block.level == 0
        and block.map
        and block.type in ("bullet_list_open", "ordered_list_open", "table_open")
    }
    after_text = {number for number in begins if number > 0 and lines[number - 1].strip()}
    return "".join("\n" + line if number in after_text else line for number, line in enumerate(lines))


def _with_pictures(source: Path) -> str:
    """A page, with the pictures in it that follow the scheme of the page; as images they could not."""

    def drawn(found: re.Match[str]) -> str:
        file = source.parent / found[1]
        picture = file.read_text(encoding="utf-8") if file.is_file() else ""
        if 'class="drawn"' not in picture.partition(">")[0]:
            return str(found.group())
        return f'<div class="figure">{picture.replace(chr(10), "")}</div>'

    return _PICTURE.sub(drawn, source.read_text(encoding="utf-8"))


def show_code(file: Path, pages: Path) -> None:
    """Write a page with a file of code, or with the names in a folder."""
    name = file.relative_to(ROOT).as_posix()
    there = pages / "source" / f"{name}.md"
    there.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        names = sorted(entry.name for entry in file.iterdir() if entry.name[0] not in "._")
        shown, language = "\n".join(names), "text"
    else:
        shown, language = file.read_text(encoding="utf-8"), LANGUAGES.get(file.suffix, "text")
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n# `{name}`\n\n"
    there.write_text(f"{head}~~~~~~{language}\n{shown.rstrip()}\n~~~~~~\n", encoding="utf-8")
