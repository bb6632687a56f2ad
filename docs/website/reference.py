"""Two pages of the reference that are written from the code: every command, and every key of every file."""

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec
from click.testing import CliRunner

_BARE = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "Path": "path"}
"""Types as somebody calls them who writes TOML."""


def commands_page() -> str:
    """Return the reference of all commands, each with its whole help."""
    from fedboard.cli.main import commands

    def sections(command: click.Command, path: list[str]) -> Iterator[str]:
        below = getattr(command, "commands", {})
        if not below or command.invoke_without_command:
            told = CliRunner().invoke(commands, [*path, "--help-all"], terminal_width=100).stdout
            yield f"## {' '.join(path)}\n\n```text\n{told.strip()}\n```\n"
        for name in sorted(below):
            yield from sections(below[name], [*path, name])

    first = (
        "# Commands\n\nWritten from the commands themselves: `fedboard COMMAND --help-all` prints the same.\n"
    )
    return "\n".join([first, *sections(commands, [])])


def configuration_page() -> str:
    """Return the reference of all keys: of a simulation, a fleet and a device, and the settings of algorithms."""
    from fedboard.client.participation.config import DeviceConfig
    from fedboard.common.algorithms.registry import example_algorithms, installed
    from fedboard.server.fleet.settings import FleetSettings
    from fedboard.simulations.config import SimulationConfig

    parts = [
        "# Configuration\n\nEvery key of every file, written from the code that reads it. Others are refused. "
        "Settings of an algorithm are in `[settings]` of a simulation, in `[task.settings]` of a fleet.\n",
        "## A simulation: `CONFIG.toml` or `--set KEY=VALUE`\n\n" + _table(SimulationConfig),
        "## A fleet: `fleet.toml`\n\n" + _table(FleetSettings),
        "## A device: `device.toml`\n\n" + _table(DeviceConfig),
    ]
    for algorithm in (*installed(), *example_algorithms()):
        parts.append(f"## Settings of `{algorithm.name}`\n\n{_table(algorithm.settings)}")
    return "\n".join(parts)


def keys_of(record: type, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield each key below a section, a struct or a data class, with its values, its default and what it is for."""
    told, kinds = _docstrings(record), get_type_hints(record, include_extras=True)
    for name, key, default in _fields(record):
        inner = _section(kinds[name])
        if dataclasses.is_dataclass(kinds[name]):
            continue  # what a run works out by itself
        if inner is not None:
            yield from keys_of(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _named(kinds[name]), default, told.get(name, "")


def _fields(record: type) -> Iterator[tuple[str, str, str]]:
    """Name, key and default of each field."""
    if issubclass(record, msgspec.Struct):
        for one in msgspec.structs.fields(record):
            made = one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()
            yield one.name, one.encode_name, "required" if one.required else _shown(made)
    else:
        for one in dataclasses.fields(record):
            made = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
            yield one.name, one.name, "required" if made is dataclasses.MISSING else _shown(made)


def _shown(value: Any) -> str:
    if value is None or value in ({}, (), ""):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{getattr(value, 'value', value)}`"


def _table(record: type) -> str:
    rows = [f"| `{key}` | {kind} | {default} | {told} |" for key, kind, default, told in keys_of(record)]
    return "\n".join(["| key | values | default | |", "| --- | --- | --- | --- |", *rows, ""])


def _docstrings(record: type) -> dict[str, str]:
    """The sentence below each field of a class and of those that it comes from."""
    found: dict[str, str] = {}
    for base in reversed([base for base in record.__mro__ if base.__module__.startswith("fedboard")]):
        body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(base))).body[0].body
        for field, below in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                found[field.target.id] = (
                    " ".join(str(below.value.value).split()).replace("``", "`").replace("|", "\\|")
                )
    return found


def _section(kind: Any) -> type[msgspec.Struct] | None:
    """The section that a key holds, if it holds one."""
    kinds = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    found = [one for one in kinds if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return found[0] if len(found) == 1 else None


def _named(kind: Any) -> str:
    """A type, and the range or the values that it allows."""
    if get_origin(kind) in (types.UnionType, Union):
        return " or ".join(_named(one) for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kind))
    if hasattr(kind, "__metadata__"):
        signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
        limits = [
            f"{sign} {getattr(meta, name):g}"
            for meta in kind.__metadata__
            for name, sign in signs.items()
            if getattr(meta, name, None) is not None
        ]
        return " ".join([_named(kind.__origin__), *limits])
    if get_origin(kind) is not None:
        inner = ", ".join(dict.fromkeys(_named(one) for one in get_args(kind) if one is not Ellipsis))
        return f"table of {inner}" if get_origin(kind) is dict else f"list of {inner}"
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        return ", ".join(f"`{one.value}`" for one in kind)
    return _BARE.get(getattr(kind, "__name__", ""), getattr(kind, "__name__", "any"))
