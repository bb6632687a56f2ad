"""Parsers of files: their messages are written where no disk is, and read from there."""

from collections.abc import Callable
from pathlib import Path

from fedboard.common.errors import InputError
from fleets.fuzz.documents import Form
from fleets.fuzz.specimens import in_file
from fleets.fuzz.trials import Parser


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
