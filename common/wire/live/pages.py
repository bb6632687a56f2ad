"""The text of a live page, and the policy by which a browser runs it."""

import hashlib
import html
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files

from fedboard.common.wire.pages.filling import base_style, filled, source_hash
from fedboard.common.wire.pages.joining import joined_script


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePage:
    """What is sent; it holds no state, so it is the same for every run of a version."""

    content: bytes
    policy: str
    """Of its Content-Security-Policy header."""
    digest: str
    """By which a page that is open finds that its server has become another one."""


def live_page() -> LivePage:
    """The page of a run."""
    folder = files(__package__)
    style = base_style() + folder.joinpath("style.css").read_text(encoding="utf-8")
    script = joined_script(folder.joinpath("script"), "run.js")
    digest = hashlib.sha256((style + script).encode()).hexdigest()
    slots = {
        "style": style,
        "script": script,
        "digest": digest,
        "software": html.escape(f"fedboard {version('fedboard')}"),
    }
    text = filled(folder.joinpath("run.html").read_text(encoding="utf-8"), slots)
    policy = (
        "default-src 'none'",
        f"script-src '{source_hash(script)}'",
        f"style-src '{source_hash(style)}'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return LivePage(content=text.encode("utf-8"), policy="; ".join(policy), digest=digest)
