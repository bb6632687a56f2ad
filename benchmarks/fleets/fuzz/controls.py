"""Parsers that are broken on purpose, each in a way of its own: what finds nothing in them finds nothing at all."""

import json
import os
import signal
import time

from fleets.fuzz.trials import Parser

_SPECIMEN = b'{"kind":"number","value":12,"size":3}'
_BAD = (11, 13, 24, -12)
"""Next to the number of the specimen: few mutants have one of them."""


def broken_parsers() -> list[Parser]:
    """Each must be found; the first is sound, and nothing may be found in it."""
    parsers = {
        "sound": _sound,
        "bare-error": _bare_error,
        "endless": _endless,
        "sleeping": _sleeping,
        "greedy": _greedy,
        "dying": _dying,
    }
    return [
        Parser(
            name=f"control/{name}",
            read=read,
            refusals=(ValueError,),
            specimens=(_SPECIMEN,),
            form="json",
            longest_sleep=0.3,
        )
        for name, read in parsers.items()
    ]


def _sound(content: bytes) -> object:
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("too deep") from error


def _value(content: bytes) -> object:
    found = _sound(content)
    return found.get("value") if isinstance(found, dict) else None


def _bare_error(content: bytes) -> object:
    return {12: "the value of the specimen"}[12 if _value(content) not in _BAD else 0]


def _endless(content: bytes) -> object:
    while _value(content) in _BAD:
        pass
    return None


def _sleeping(content: bytes) -> object:
    if _value(content) in (*_BAD, 4.0, 12e6):
        time.sleep(0.5)
    return None


def _greedy(content: bytes) -> object:
    found = _value(content)
    return bytes(1 << 40) if isinstance(found, str) else None


def _dying(content: bytes) -> object:
    if _value(content) in _BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return None
