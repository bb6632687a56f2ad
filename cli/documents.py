"""What ``--json`` means, for every command that has it: stdout holds one JSON document, all else is on stderr.

A command that fails prints a document too, ``{"error": {...}}``, beside its sentence on stderr and its exit code.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.errors import InputError

Command = TypeVar("Command", bound=Callable[..., object])

_FLAG = "--json"
STDOUT = Path("-")
_wanted: ContextVar[bool] = ContextVar("wanted", default=False)
"""Whether stdout is to hold one document, and none is there yet."""

JSON = click.option(_FLAG, "as_json", is_flag=True, help="One JSON document on stdout, all else on stderr.")


def json_or_file(command: Command) -> Command:
    """``--json`` as everywhere, and ``--json FILE`` to keep the numbers in a file and the words on stdout."""
    return click.option(
        _FLAG,
        "json_file",
        is_flag=False,
        flag_value=str(STDOUT),
        metavar="[FILE]",
        type=click.Path(path_type=Path),
        callback=_filed,
        help="One JSON document on stdout, all else on stderr; with FILE there instead.",
    )(command)


def _filed(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Notice that stdout is not for the document; say before the work where none can be written."""
    if value is not None and value != STDOUT:
        _wanted.set(False)
        if value.is_dir() or not value.absolute().parent.is_dir():
            raise InputError(f"--json {value}: name a file in a directory that exists")
    return value


def begin(arguments: Sequence[str]) -> None:
    """Note whether a command line asks for a document."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    _wanted.set(_FLAG in own or f"{_FLAG}={STDOUT}" in own)


def document(record: object) -> None:
    """Print a command's document."""
    _wanted.set(False)
    click.echo(_text(record))


def file_document(record: object, file: Path) -> None:
    """The same for a command that also takes a file: ``-`` is stdout."""
    if file == STDOUT:
        document(record)
    else:
        file.write_text(json.dumps(_plain(record), indent=2) + "\n", encoding="utf-8")


def error_document(sentence: str, exit_code: int) -> None:
    """Print the document of a command that failed, where one is asked for and none is printed yet."""
    if _wanted.get():
        kind = ExitCode(exit_code).name if exit_code in list(ExitCode) else ExitCode.FAILED.name
        record = {"exit_code": int(exit_code), "kind": kind.lower().replace("_", "-"), "sentence": sentence}
        document({"error": record})


def _text(record: object) -> str:
    return json.dumps(_plain(record), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """The same with null for what no JSON number is."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
