"""Templates to text: one environment, everything escaped, nothing loaded from outside."""

import hashlib
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from fedboard.common.privacy.shown import shown_number
from fedboard.common.reports import wording
from fedboard.common.reports.filling import base_style, source_hash

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE: Final = "fedboard.server.operating"


def _read(name: str) -> str:
    """A file of this package, or of another as ``package:file``."""
    package, _, file = name.rpartition(":")
    return resources.files(package or _PACKAGE).joinpath(file).read_text(encoding="utf-8")


_STYLE: Final = base_style() + _read("style.css")
_SCRIPT: Final = _read("live.js")
_DIGEST: Final = hashlib.sha256((_STYLE + _SCRIPT).encode()).hexdigest()
LIVE_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"script-src '{source_hash(_SCRIPT)}'",
        f"style-src '{source_hash(_STYLE)}'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""By which a browser runs the page of a run that goes on."""


def render(template: str, *, live: bool, **values: object) -> str:
    """Fill a template. Values are escaped; only drawn SVG is taken as markup.

    Args:
        template: a file of this package, or ``package:file``.
        live: whether it is served and refreshed; else it is a file that runs no script.
        values: for its slots; what is missing is left out.
    """
    return _environment().get_template(template).render(live=live, **values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_read), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    for name in ("number", "percent", "duration", "setting", "capital", "byte_count", "spent", "left_over"):
        environment.filters[name] = getattr(wording, name)
    environment.filters["upward"] = shown_number
    environment.globals |= {
        "style": Markup(_STYLE),
        "script": Markup(_SCRIPT),
        "digest": _DIGEST,
        "software": f"fedboard {version('fedboard')}",
    }
    return environment
