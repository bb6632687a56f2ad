"""An HTML file that needs nothing else: a template with slots, and the hashes that its policy admits."""

import base64
import hashlib
import re
from collections.abc import Mapping

_SLOT = re.compile(r"\{\{(\w+)\}\}")


def filled(template: str, slots: Mapping[str, str]) -> str:
    """The template with each ``{{slot}}``, in one pass, so that nothing that was filled in is a slot itself."""
    return _SLOT.sub(lambda slot: slots[slot.group(1)], template)


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
