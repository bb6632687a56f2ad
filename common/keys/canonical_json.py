"""Canonical JSON: the one form that signatures of The Update Framework (TUF) are over.

Keys in the order of their code points, no white space, no floating point numbers; in a string only quotation marks
and backslashes are escaped, everything else stands for itself in UTF-8.

Reference: the TUF specification, section 4.1, and http://wiki.laptop.org/go/Canonical_JSON.
"""

from typing import Any


def canonical_json(value: Any) -> bytes:
    """The canonical form of a value as ``json`` reads it.

    Args:
        value: of dicts with text as keys, lists, text, whole numbers, booleans and None.

    Raises:
        ValueError: it holds something else, such as a floating point number.
    """
    return _written(value).encode("utf-8", "strict")


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return "{" + ",".join(f"{_written(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    raise ValueError(f"canonical JSON has no {type(value).__name__}")
