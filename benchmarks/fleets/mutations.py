"""Changes of messages behind their lengths, compression and JSON: what changing bytes alone rarely gets through."""

import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

_MARK = "\x00mark\x00"
_RAW = (
    *("0", "-1", "1e999", "-1e-999", "0.5", "9223372036854775808", "NaN", "null", "true", '""', '"\\ud800"'),
    *("[]", "{}", "[[]]", '{"": 0}', '[null, "a", -0.0]', "4294967296", "1" * 400, "1" * 5000),
    *("[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000),
)
"""What no writer of JSON writes where another value stood."""
_PARTS = Callable[[bytes], tuple[bytes, Callable[[bytes], bytes]]]


def _frame(content: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    length = int.from_bytes(content[8:12], "little")
    magic, body = content[:8], content[12 + length :]

    def whole(header: bytes) -> bytes:
        header += b" " * (-(12 + len(header)) % 8)
        return magic + len(header).to_bytes(4, "little") + header + body

    return content[12 : 12 + length], whole


def _board(content: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    length = int.from_bytes(content[:8], "little")
    body = content[8 + length :]

    def whole(header: bytes) -> bytes:
        header += b" " * (-(8 + len(header)) % 64)
        return len(header).to_bytes(8, "little") + header + body

    return content[8 : 8 + length], whole


def _packed(content: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The header of the board within, packed again."""
    header, whole = _board(zlib.decompressobj(31).decompress(content, 1 << 20))
    return header, lambda changed: gzip.compress(whole(changed), 1, mtime=0)


def _headed(content: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    head, newline, text = content.partition(b"\n")
    return text, lambda changed: head + newline + changed


FORMS: dict[str, _PARTS] = {
    "json": lambda content: (content, lambda changed: changed),
    "headed": _headed,
    "frame": _frame,
    "board": _board,
    "packed": _packed,
}
"""By name: the JSON of a message, and how it becomes a message again."""


def mutant(content: bytes, form: str, rng: random.Random, bytes_changed: Callable[[bytes], bytes]) -> bytes:
    """One message changed: its bytes, the bytes of its JSON, or a value of that.

    Args:
        content: a message, or what became of one.
        form: in ``FORMS``; empty: bytes and nothing else.
        rng: chooses.
        bytes_changed: of the fuzzer.
    """
    how = rng.random()
    if not form or how < 0.4:
        return bytes_changed(content)
    try:
        text, whole = FORMS[form](content)
        return whole(bytes_changed(text) if how < 0.6 else value_changed(text, rng))
    except (ValueError, zlib.error, RecursionError, MemoryError, OverflowError):
        return bytes_changed(content)


def value_changed(text: bytes, rng: random.Random) -> bytes:
    """JSON with another value in one place, with one entry less, or with a key twice.

    Raises:
        ValueError: it is no JSON.
    """
    document = json.loads(text)
    places = list(_places(document))
    if not places:
        return text
    holder, key = rng.choice(places)
    how = rng.random()
    if how < 0.15:
        del holder[key]
        return json.dumps(document).encode()
    if how < 0.4:
        other, its_key = rng.choice(places)
        holder[key] = other[its_key]
        return json.dumps(document).encode()
    raw = rng.choice(_RAW)
    if how < 0.55 and isinstance(holder, dict):
        raw = f"{json.dumps(holder[key])},{json.dumps(key)}:{raw}"
    holder[key] = _MARK
    return json.dumps(document).replace(json.dumps(_MARK), raw).encode()


def _places(value: Any) -> Any:
    """Every value that stands in another: what holds it, and where."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield value, key
        yield from _places(one)
