"""Parsers that are broken on purpose, each in a way of its own: what finds nothing in them finds nothing at all."""

import json

from fleets.fuzz_port import Target

_SPECIMEN = b'{"kind":"number","value":12,"size":3}'


def control_targets() -> dict[str, Target]:
    """Each must be found; the first is sound, and nothing may be found in it."""
    broken = {
        "sound": _sound,
        "bare-error": _bare_error,
        "endless": _endless,
    }
    return {
        f"control/{name}": Target(read, (ValueError,), (_SPECIMEN,), "json") for name, read in broken.items()
    }


def _sound(content: bytes) -> object:
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("too deep") from error


def _value(content: bytes) -> object:
    found = _sound(content)
    return found.get("value", "gone") if isinstance(found, dict) else 12


def _bare_error(content: bytes) -> object:
    return {12: "the value of the specimen"}[_value(content)]


def _endless(content: bytes) -> object:
    while _value(content) == "gone":
        pass
    return None
