"""What ``--json`` means, for every command that has it: stdout holds one JSON document, all else is on stderr.

A command that fails prints a document too, ``{"error": {...}}``, beside its sentence on stderr and its exit code.
"""

import json
import math
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import click

from fedboard.cli.declaring import option
from fedboard.cli.exit_codes import ExitCode

_FLAG = "--json"
_wanted: ContextVar[bool] = ContextVar("wanted", default=False)
"""Whether stdout is to hold one document, and none is there yet."""

JSON = option("Print one JSON document.", _FLAG)


def begin(arguments: Sequence[str]) -> None:
    """Note whether a command line asks for a document."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    _wanted.set(_FLAG in own)


def document(record: object) -> None:
    """Print a command's document."""
    _wanted.set(False)
    click.echo(json.dumps(_plain(record), ensure_ascii=False))


def answer(record: object, text: str, *, as_json: bool) -> None:
    """Print what a command found, as its document or in words."""
    document(record) if as_json else click.echo(text)


def error_document(sentence: str, exit_code: int) -> None:
    """Print the document of a command that failed, where one is asked for and none is printed yet."""
    if _wanted.get():
        kind = {code.value: code.name for code in ExitCode}.get(exit_code, ExitCode.FAILED.name)
        record = {"exit_code": int(exit_code), "kind": kind.lower().replace("_", "-"), "sentence": sentence}
        document({"error": record})


def _plain(value: Any) -> Any:
    """The same with null for what no JSON number is."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
