"""Filling a page's text: slots in one pass, data that no browser takes for markup, hashes for its policy."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_SLOT = re.compile(r"\{\{(\w+)\}\}")


def filled(template: str, slots: Mapping[str, str]) -> str:
    """The template with each ``{{slot}}``, in one pass, so that nothing that was filled in is a slot itself."""
    return _SLOT.sub(lambda slot: slots[slot.group(1)], template)


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def as_data(value: Any) -> str:
    """JSON that no reader of HTML takes for markup, whatever is in it; bytes as base64."""
    text = json.dumps(
        value, default=lambda content: base64.b64encode(content).decode(), separators=(",", ":")
    )
    return text.replace("<", "\\u003c")


def base_style() -> str:
    """Colours, letters and boxes that all pages share."""
    return files(__package__).joinpath("base.css").read_text(encoding="utf-8")
