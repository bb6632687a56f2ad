"""What is required of the site once it is built: links lead somewhere, and no other host is asked for anything."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "audio": ("src",),
    "embed": ("src",),
    "form": ("action",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
"""Element -> attributes whose address a browser asks for without being told to."""
_STYLE_LOADS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])([^"')]+)""")


@dataclass(slots=True)
class _Found(HTMLParser):
    """What one page has: addresses it leads to and loads, and places that others lead to."""

    leads: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)
    styles: bool = False

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        for name in LOADED.get(tag, ()):
            if name in given and given.get("rel") not in ("canonical", "prev", "next"):
                several = given[name].split(",") if name == "srcset" else [given[name]]
                self.loads += [part.split()[0] for part in several if part.strip()]
        self.loads += _STYLE_LOADS.findall(given.get("style", ""))
        self.styles = tag == "style"

    def handle_data(self, data: str) -> None:
        if self.styles:
            self.loads += _STYLE_LOADS.findall(data)

    def handle_endtag(self, tag: str) -> None:
        self.styles = False


def faults(site: Path) -> list[str]:
    """Everything that is wrong, a line each; empty where nothing is.

    Args:
        site: the folder with the built pages.
    """
    files = _Files(site)
    pages = {page: _read(page) for page in sorted(site.rglob("*.html"))}
    told = [fault for page, found in pages.items() for fault in _of_page(page, found, pages, files)]
    for sheet in sorted([*site.rglob("*.css"), *site.rglob("*.svg")]):
        for address in _STYLE_LOADS.findall(sheet.read_text(encoding="utf-8")):
            told += _of_load(sheet, address, files)
    return told


class _Files:
    """The files of a site, by the paths that pages give; each is looked up once, though every page leads to it."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self._found: dict[tuple[Path, str], Path | None] = {}

    def at(self, page: Path, path: str) -> Path | None:
        """Where a path on a page leads; None where no file is there."""
        if not path:
            return page
        above = self.site if path.startswith("/") else page.parent
        if (above, path) not in self._found:
            there = (above / unquote(path.lstrip("/"))).resolve()
            there = there / "index.html" if there.is_dir() else there
            self._found[above, path] = there if there.is_file() else None
        return self._found[above, path]


def _read(page: Path) -> _Found:
    found = _Found()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def _of_page(page: Path, found: _Found, pages: dict[Path, _Found], files: _Files) -> Iterator[str]:
    where = page.relative_to(files.site)
    for address in found.loads:
        yield from _of_load(page, address, files)
    for address in found.leads:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        there = files.at(page, parts.path)
        if there is None:
            yield f"{where} links to {address}, which is not there"
        elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].places:
            yield f"{where} links to {address}: no such place on that page"


def _of_load(page: Path, address: str, files: _Files) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.scheme == "data" or address.startswith("#"):
        return
    if parts.scheme or parts.netloc:
        yield f"{page.relative_to(files.site)} loads {address} from another host"
    elif files.at(page, parts.path) is None:
        yield f"{page.relative_to(files.site)} loads {address}, which is not there"
