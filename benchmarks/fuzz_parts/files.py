"""Parsers of files: their messages are written where no disk is, and read from there."""

from collections.abc import Callable
from pathlib import Path

from fuzz_parts.documents import Form
from fuzz_parts.specimens import in_file
from fuzz_parts.trials import Parser

from fedboard.common.errors import InputError


def file_parser(
    name: str,
    file: str,
    read: Callable[[Path], object],
    specimens: tuple[bytes, ...],
    form: str | Form | None,
    *,
    refusals: tuple[type[BaseException], ...] = (InputError,),
    share: float = 0.5,
) -> Parser:
    """Reads a file of this name; the same name in each message."""

    def from_bytes(content: bytes) -> object:
        with in_file(content, file) as place:
            return read(place)

    return Parser(
        name=f"file/{name}", read=from_bytes, refusals=refusals, specimens=specimens, form=form, share=share
    )
