"""Mutations: of bytes (flips, cuts, insertions, lengths, splices) and of values (see ``fuzz/documents.py``)."""

import base64
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from fleets.fuzz.documents import FORMS, Form, Inside, Pairs, Raw, to_json

LARGEST = 1 << 20
"""Bytes of a mutant: what is longer is cut."""
_EDGES = (0, 1, 2, 7, 8, 63, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536)
_EDGES += tuple((1 << bits) + by for bits in (31, 32, 40, 53, 62, 63, 64) for by in (-1, 0, 1))
NASTY: Sequence[Any] = (
    *(Raw(word) for word in ("NaN", "Infinity", "-Infinity", "1e308", "1e999", "-1e999", "5e-324", "-0.0")),
    *(
        Raw(word)
        for word in ("nan", "inf", "-inf", "0x10", "1_0", "01", "1.5", "+1", "", "}", "]", '"', "\x00")
    ),
    *(Raw(digit * many) for digit in "19" for many in (20, 400, 5000)),
    *(Raw(mark * deep) for mark in ("[", '{"a":') for deep in (200, 3000, 100_000)),
    *(Raw("[" * deep + "]" * deep) for deep in (64, 900, 1100, 5000)),
    *(Raw('{"a":' * deep + "1" + "}" * deep) for deep in (64, 900, 5000)),
    *(Raw("{a=" * deep + "1" + "}" * deep) for deep in (64, 900, 5000)),
    *(
        Raw(text)
        for text in ('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', "1979-05-27T07:32:00Z", "1979-05-27")
    ),
    *(number for edge in _EDGES for number in (edge, -edge)),
    *("", " ", "0", "-1", "nan", "1e999", "../../etc/passwd", "/dev/null", "\u202e\u0661\u00b2", "a" * 300),
    *("x" * 100_000, "0" * 64, "f" * 64, "0" * 130, "9" * 5000, "\n", "a\nb", "%s%n{0}", "=" * 40),
    *(None, True, False, [], Pairs(), [[]], [None] * 50, Pairs([("", None)]), 0.1, -1.0, 1e300, 2**1000),
)
_WORD = re.compile(r"[A-Za-z0-9_./=+-]+")


class Mutator:
    """Makes mutants of specimens of one kind; the same ones for the same ``rng``."""

    def __init__(self, form: str | Form | None, rng: random.Random) -> None:
        """Take a form, or the name of one, or None for bytes alone."""
        self._form: Form | None = FORMS[form] if isinstance(form, str) else form
        self._rng = rng

    def mutant(self, base: bytes, other: bytes) -> bytes:
        """Something near ``base``, with parts of ``other`` perhaps."""
        content = base
        for _ in range(1 + int(self._rng.expovariate(1.2))):
            of_values = self._form is not None and self._rng.random() < 0.7
            changed = self._of_values(content, other) if of_values else None
            content = self._of_bytes(content, other) if changed is None else changed
        return content[:LARGEST]

    # Of bytes.

    def _of_bytes(self, content: bytes, other: bytes) -> bytes:
        rng, found = self._rng, bytearray(content)
        place, other_place = rng.randint(0, len(found)), rng.randint(0, len(other))
        span = min(int(rng.expovariate(0.05)) + 1, 4096)
        match rng.randrange(10):
            case 0 | 1 if found:
                for _ in range(rng.choice((1, 1, 1, 2, 8))):
                    found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
            case 2 if found:
                found[rng.randrange(len(found))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22, 0x2C))
            case 3:
                del found[place:]
            case 4:
                del found[place : place + span]
            case 5:
                found[place:place] = found[place : place + span] * rng.choice((1, 1, 2, 50))
            case 6:
                found[place:place] = rng.choice(
                    (rng.randbytes(span), bytes(span), b"\xff" * span, b"\n" * span)
                )
            case 7:
                width = rng.choice((1, 2, 4, 8))
                number = rng.choice(_EDGES) % (1 << 8 * width)
                start = rng.choice((place, 8, 12, 0))
                found[start : start + width] = number.to_bytes(width, rng.choice(("little", "big")))
            case 8:
                found = bytearray(content[:place] + other[other_place:])
            case _:
                found[place : place + span] = other[other_place : other_place + span]
        return bytes(found)

    # Of values.

    def _of_values(self, content: bytes, other: bytes) -> bytes | None:
        assert self._form is not None
        try:
            document, rest = self._form.read(content)
            borrowed = self._form.read(other)[0] if self._rng.random() < 0.2 else document
        except (ValueError, TypeError, ArithmeticError, RecursionError, AttributeError, LookupError):
            return None
        except Exception:  # another form's own errors: the bytes are not of this form
            return None
        held = [document]
        try:
            for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
                self._change(held, borrowed)
            return self._form.write(held[0], rest)
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            return None  # no text can say it

    def _change(self, held: list[Any], borrowed: Any) -> None:
        container, key = self._place(held)
        change: Callable[[Any, Any, Any], None] = self._rng.choice(
            (self._replace, self._replace, self._tweak, self._tweak, self._drop, self._double, self._borrow)
        )
        change(container, key, borrowed)

    def _place(self, held: list[Any]) -> tuple[Any, int]:
        """A list or pairs, and a place in it; any depth."""
        container, key = held, 0
        while True:
            inside = _get(container, key)
            if isinstance(inside, Inside):
                inside = [inside.value] if not isinstance(inside.value, list) else inside.value
            if not isinstance(inside, list) or not inside or self._rng.random() < 0.15:
                return container, key
            container, key = inside, self._rng.randrange(len(inside))

    def _replace(self, container: Any, key: int, _: Any) -> None:
        _set(container, key, self._rng.choice(NASTY))

    def _drop(self, container: Any, key: int, _: Any) -> None:
        if len(container) > 1 or self._rng.random() < 0.3:
            container.pop(key)
            if not container:
                container.append(("", None) if isinstance(container, Pairs) else None)

    def _double(self, container: Any, key: int, _: Any) -> None:
        again = container[key]
        if isinstance(container, Pairs) and self._rng.random() < 0.5:
            again = (self._rng.choice(("", "format", "__metadata__", f"{again[0]}_")), again[1])
        small = _is_small(again[1] if isinstance(container, Pairs) else again)
        container[key:key] = [again] * (self._rng.choice((1, 1, 2, 300)) if small else 1)

    def _borrow(self, container: Any, key: int, borrowed: Any) -> None:
        other, place = self._place([borrowed])
        _set(container, key, _get(other, place))

    def _tweak(self, container: Any, key: int, _: Any) -> None:
        rng, value = self._rng, _get(container, key)
        if isinstance(value, bool) or value is None:
            _set(container, key, rng.choice((True, False, None, 0, 1)))
        elif isinstance(value, int | float):
            _set(
                container,
                key,
                rng.choice((value + 1, value - 1, -value, value * 2, value * 1e6, value / 3, f"{value}")),
            )
        elif isinstance(value, str):
            _set(container, key, self._text(value))
        elif isinstance(value, bytes):
            _set(container, key, self._of_bytes(value, value))
        elif isinstance(value, list) and value:
            rng.shuffle(value)

    def _text(self, text: str) -> str:
        rng = self._rng
        words = list(_WORD.finditer(text[:4096]))
        match rng.randrange(6):
            case 0 if words:
                word = rng.choice(words)
                new = rng.choice(NASTY)
                return f"{text[: word.start()]}{new if isinstance(new, str) else to_json(new)}{text[word.end() :]}"
            case 1 if words:
                word = rng.choice(words)
                return f"{text[: word.start()]}{self._coded(word[0])}{text[word.end() :]}"
            case 2:
                return text[: rng.randint(0, len(text))]
            case 3:
                return text + rng.choice(("\n", " ", "=", "\x00", "0", text[:4096]))
            case 4:
                return text.upper() if rng.random() < 0.5 else text[::-1]
        found = list(text) or [""]
        found[rng.randrange(len(found))] = chr(rng.choice((0, 9, 10, 32, 0x2B, 0x7F, 0xD800, 0x661, 0x1F600)))
        return "".join(found)

    def _coded(self, word: str) -> str:
        """A word of base64 with other bytes in it, in the same coding."""
        try:
            content = bytearray(base64.b64decode(word, validate=True))
        except ValueError:
            return word[:-1]
        if not content:
            return "AA=="
        return base64.b64encode(self._of_bytes(bytes(content), bytes(content))).decode()


def _is_small(value: Any) -> bool:
    return not isinstance(value, bytes) and len(to_json(value)) < 200


def _get(container: Any, key: int) -> Any:
    return container[key][1] if isinstance(container, Pairs) else container[key]


def _set(container: Any, key: int, value: Any) -> None:
    container[key] = (container[key][0], value) if isinstance(container, Pairs) else value
