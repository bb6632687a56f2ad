"""Writing the page: everything in one file, and a policy by which a browser runs what was written here and no more.

What comes from others (titles, names, certificates) is data in it, never markup and never script: the board's bytes
as base64, the rest as JSON without a ``<``.
"""

import html
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote, urlsplit

from fedboard.client.page.boards import HeldBoard, pins_of, require_shown, script_folder
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.reports.filling import as_data, base_style, filled, joined_script, source_hash

_HOST = re.compile(r"[\w.-]+(?::\d+)?|\[[0-9a-fA-F:.]+\](?::\d+)?", re.ASCII)
_NOWHERE = "'none'"
_NOTHING_LEAVES = (
    "The page's own policy lets it load nothing and connect to nowhere, and your browser keeps to it: it works "
    "with the network off. Save the file, and it is yours."
)
_FETCHES = (
    "Before it was ready the page fetched its board from {origin}, the only place that its policy allows. What it "
    "asks for is the same for everybody; your ratings are no part of any request."
)


def write_page(
    path: Path,
    held: HeldBoard,
    *,
    key: PinnedKey | None = None,
) -> int:
    """Write the page of a board.

    Args:
        path: the HTML file, replaced where it is there.
        held: the board. Public.
        key: who signed and who cosigned, where somebody did; the page pins them.

    Returns:
        How many bytes the page has.

    Raises:
        InputError: a board that the page cannot show.
    """
    require_shown(held)
    page = page_of(held, key=key).encode("utf-8")
    write_atomically(path, page)
    return len(page)


def page_of(held: HeldBoard, *, key: PinnedKey | None) -> str:
    """The text of the page."""
    style, script = base_style() + _text("style.css"), joined_script(script_folder())
    origin = None if held.address is None else _origin(held.address)
    data = {"board": held.entry(), "pins": pins_of(held, key)}
    slots = {
        "policy": _policy(script, style, origin),
        "title": html.escape(held.label),
        "icon": f"data:image/svg+xml,{quote(_text('icon.svg'))}",
        "style": style,
        "leaves": html.escape(_NOTHING_LEAVES if origin is None else _FETCHES.format(origin=origin)),
        "software": html.escape(f"fedboard {version('fedboard')}"),
        "written": ""
        if held.published is None
        else html.escape(f"The board was published {held.published}."),
        "data": as_data(data),
        "script": script,
    }
    return filled(_text("page.html"), slots)


def _policy(script: str, style: str, origin: str | None) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{source_hash(script)}'",
            f"style-src '{source_hash(style)}'",
            f"connect-src {origin or _NOWHERE}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _origin(address: str) -> str:
    """Scheme, host and port, as a policy may hold them.

    Raises:
        InputError: anything else is among them.
    """
    parts = urlsplit(address)
    if not _HOST.fullmatch(parts.netloc):
        raise InputError(
            f"{address}: a page fetches from a host and a port alone, without names, keys or other signs"
        )
    return f"{parts.scheme}://{parts.netloc}"


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
