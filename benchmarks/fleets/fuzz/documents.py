"""Messages taken apart into values, and put together again whatever became of the values.

A mutation that is to get behind a length, a checksum or a JSON parser changes values, not bytes. So each form of
message is read into a document (objects, lists, texts, numbers) and a rest; and written with the lengths that fit,
even where the document holds what no writer of JSON writes: a key twice, a number of 5 000 digits, endless nesting.
"""

import json
import re
import tomllib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


class Pairs(list[tuple[str, Any]]):
    """An object, as its pairs: a key may stand twice."""


class Raw(str):
    """Stands in the text as it is, whatever the format says."""

    __slots__ = ()


@dataclass(slots=True)
class Inside:
    """A document in a text of another document."""

    value: Any


@dataclass(frozen=True, slots=True)
class Form:
    """How messages of one kind are taken apart."""

    read: Callable[[bytes], tuple[Any, Any]]
    """Document and rest. Raises anything where the bytes are not of this form."""
    write: Callable[[Any, Any], bytes]


def of_json(text: str | bytes) -> Any:
    """A document."""
    return opened(json.loads(text, object_pairs_hook=Pairs))


def opened(value: Any) -> Any:
    """The value with the documents in its texts opened."""
    if isinstance(value, str) and len(value) > 8 and value[0] in "[{":
        try:
            return Inside(of_json(value))
        except ValueError:
            return value
    if isinstance(value, Pairs):
        return Pairs((key, opened(inside)) for key, inside in value)
    return [opened(inside) for inside in value] if isinstance(value, list) else value


def to_json(value: Any) -> str:
    """The text of a document."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Inside):
        return json.dumps(to_json(value.value))
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{to_json(inside)}" for key, inside in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    return json.dumps(value)


def _read_toml(content: bytes) -> tuple[Any, None]:
    return _as_pairs(tomllib.loads(content.decode())), None


def _as_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs((key, _as_pairs(inside)) for key, inside in value.items())
    return [_as_pairs(inside) for inside in value] if isinstance(value, list) else value


def _write_toml(document: Any, _: None) -> bytes:
    if not isinstance(document, Pairs):
        return f"value = {_inline(document)}\n".encode()
    plain = [one for one in document if not isinstance(one[1], Pairs)]
    sections = [one for one in document if isinstance(one[1], Pairs)]
    lines = [f"{json.dumps(key)} = {_inline(value)}" for key, value in plain]
    for name, section in sections:
        lines.append(f"[{json.dumps(name)}]")
        lines += [f"{json.dumps(key)} = {_inline(value)}" for key, value in section]
    return "\n".join((*lines, "")).encode()


def _inline(value: Any) -> str:
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inside)}" for key, inside in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str | bool | int | float | None):
        return to_json(value)
    return str(value)  # a date


def _read_lines(content: bytes) -> tuple[Any, None]:
    return content.decode().split("\n"), None


def _write_lines(document: Any, _: None) -> bytes:
    lines = document if isinstance(document, list) else [document]
    return "\n".join(line if isinstance(line, str) else to_json(line) for line in lines).encode(
        errors="replace"
    )


_FRAME_MAGIC, _PACKED_MAGIC = 8, b"FBPACK1\n"


def _read_frame(content: bytes) -> tuple[Any, Any]:
    start = _FRAME_MAGIC + 4
    stop = start + int.from_bytes(content[_FRAME_MAGIC:start], "little")
    return of_json(content[start:stop]), (content[:_FRAME_MAGIC], content[stop:])


def _write_frame(document: Any, rest: Any) -> bytes:
    magic, body = rest
    header = to_json(document).encode()
    header += b" " * (-(len(magic) + 4 + len(header)) % 8)
    return bytes(magic) + len(header).to_bytes(4, "little") + header + bytes(body)


def _read_board(content: bytes) -> tuple[Any, Any]:
    stop = 8 + int.from_bytes(content[:8], "little")
    return of_json(content[8:stop]), content[stop:]


def _write_board(document: Any, rest: Any) -> bytes:
    header = to_json(document).encode()
    header += b" " * (-(8 + len(header)) % 64)
    return len(header).to_bytes(8, "little") + header + bytes(rest)


def _read_packed(content: bytes) -> tuple[Any, Any]:
    start = len(_PACKED_MAGIC) + 8
    length = int.from_bytes(content[start - 8 : start - 4], "little")
    return of_json(zlib.decompress(content[start : start + length])), content[start + length :]


def _write_packed(document: Any, rest: Any) -> bytes:
    plain = to_json(document).encode()
    deflated = zlib.compress(plain, 1)
    lengths = len(deflated).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
    return _PACKED_MAGIC + lengths + deflated + bytes(rest)


def _read_msgpack(content: bytes) -> tuple[Any, None]:
    return _as_pairs(msgspec.msgpack.decode(content)), None


def _write_msgpack(document: Any, _: None) -> bytes:
    return msgspec.msgpack.encode(_plain(document))


def _plain(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: _plain(inside) for key, inside in value}
    if isinstance(value, list):
        return [_plain(inside) for inside in value]
    return str(value)[:100] if isinstance(value, Raw) else value


_HEADED = re.compile(rb"\A([^\n]*\n)(\{.*)\Z", re.DOTALL)


def _read_headed(content: bytes) -> tuple[Any, Any]:
    found = _HEADED.match(content)
    if found is None:
        raise ValueError("no line before the JSON")
    return of_json(found[2]), found[1]


FORMS: Mapping[str, Form] = {
    "json": Form(lambda content: (of_json(content), None), lambda document, _: to_json(document).encode()),
    "headed": Form(_read_headed, lambda document, head: bytes(head) + to_json(document).encode()),
    "toml": Form(_read_toml, _write_toml),
    "lines": Form(_read_lines, _write_lines),
    "frame": Form(_read_frame, _write_frame),
    "board": Form(_read_board, _write_board),
    "packed": Form(_read_packed, _write_packed),
    "msgpack": Form(_read_msgpack, _write_msgpack),
}
"""By name; messages without one are bytes to the mutations."""
