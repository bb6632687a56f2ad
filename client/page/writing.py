"""Writing the page: everything in one file, and a policy by which a browser runs what was written here and no more.

What comes from others (titles, names, certificates) is data in it, never markup and never script: the board's bytes
as base64, the rest as JSON without a ``<``.
"""

import html
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from fedboard.client.page.boards import HeldBoard, pins_of, require_shown, script_folder
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.files import write_atomically
from fedboard.common.reports.filling import as_data, base_style, filled, joined_script, source_hash


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
    data = {"board": held.entry(), "pins": pins_of(held, key)}
    slots = {
        "policy": _policy(script, style),
        "title": html.escape(held.label),
        "icon": f"data:image/svg+xml,{quote(_text('icon.svg'))}",
        "style": style,
        "software": html.escape(f"fedboard {version('fedboard')}"),
        "written": ""
        if held.published is None
        else html.escape(f"The board was published {held.published}."),
        "data": as_data(data),
        "script": script,
    }
    return filled(_text("page.html"), slots)


def _policy(script: str, style: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{source_hash(script)}'",
            f"style-src '{source_hash(style)}'",
            "connect-src 'none'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
