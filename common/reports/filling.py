"""Filling a page's text: slots in one pass, data that no browser takes for markup, hashes for its policy.

A page's script: its modules, in the order in which they need each other, as the text of one module.

The modules in a page's folder are plain JavaScript. An HTML file that needs nothing else has no place for files
that import each other, so the imports and the word ``export`` are left out, and every name at the top of a module
must be its own. What is imported from ``shared/`` is this package's, the same for all pages.
"""

import base64
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
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


_SHARED = "shared/"
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.{1,2}/[\w./-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) )", re.MULTILINE)


def shared_script() -> Traversable:
    """Where the modules are that all pages share."""
    return files(__package__).joinpath("script")


def joined_script(folder: Traversable, start: str = "main.js") -> str:
    """All modules that ``start`` needs, as the text of one; a test holds the modules to the form.

    Args:
        folder: where the page's own modules are.
        start: the module that the page begins with.
    """
    texts = script_modules(folder, start).values()
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def script_modules(folder: Traversable, start: str = "main.js") -> dict[str, str]:
    """Name and text of all modules that ``start`` needs, each after those that it needs itself."""
    found: dict[str, str] = {}

    def visit(name: str) -> None:
        text = _text(name, folder)
        for path in _IMPORT.findall(text):
            other = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if other not in found:
                visit(other)
        found[name] = text

    visit(start)
    return found


def _text(name: str, folder: Traversable) -> str:
    if name.startswith(_SHARED):
        return shared_script().joinpath(*name.removeprefix(_SHARED).split("/")).read_text(encoding="utf-8")
    return folder.joinpath(*name.split("/")).read_text(encoding="utf-8")
