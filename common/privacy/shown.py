"""How something public looks in a notebook: a verdict in front, then a plain table. Everything is escaped."""

from collections.abc import Iterable
from html import escape

_GOOD, _BAD = "#1a7f37", "#b42318"


def table_html(heading: str, verdict: str, rows: Iterable[tuple[str, str]]) -> str:
    """A small table.

    Args:
        heading: what it is.
        verdict: whether it is private, in a plain sentence: ``private: ...`` where it is, going on after
            a semicolon where that was not checked.
        rows: name and value. Public facts alone.
    """
    colour = _GOOD if verdict.startswith("private") and ";" not in verdict else _BAD
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in rows
    )
    return (
        f"<div><b>{escape(heading)}</b> <span style='color:{colour}'>{escape(verdict)}</span>"
        f"<table>{cells}</table></div>"
    )
