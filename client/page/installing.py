"""What lies beside a page that can be installed: a manifest, and the worker that keeps the page for later."""

import json
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from fedboard.common.files import write_atomically

ICON = "icon.svg"
_COLOUR = "#0b5c94"


def manifest_name(page: Path) -> str:
    """Of the manifest, beside the page."""
    return f"{page.stem}.webmanifest"


def worker_name(page: Path) -> str:
    """Of the worker, beside the page."""
    return f"{page.stem}.worker.js"


def write_beside(page: Path, *, title: str, digest: str) -> None:
    """Write the manifest and the worker of a page.

    Args:
        page: the HTML file.
        title: of the page. Public.
        digest: SHA-256 of the page, hex: another page is kept anew.
    """
    icon = files(__package__).joinpath(ICON).read_text(encoding="utf-8")
    manifest = {
        "name": f"{title}: your own recommendations",
        "short_name": title,
        "start_url": quote(page.name),
        "scope": "./",
        "display": "standalone",
        "theme_color": _COLOUR,
        "background_color": "#fefefd",
        "icons": [{"src": f"data:image/svg+xml,{quote(icon)}", "sizes": "any", "type": "image/svg+xml"}],
    }
    own = [quote(page.name), quote(manifest_name(page))]
    worker = files(__package__).joinpath("worker.js").read_text(encoding="utf-8")
    worker = worker.replace("{{kept}}", f"fedboard-page-{digest[:16]}").replace("{{files}}", json.dumps(own))
    write_atomically(page.with_name(manifest_name(page)), json.dumps(manifest, indent=1).encode())
    write_atomically(page.with_name(worker_name(page)), worker.encode())
