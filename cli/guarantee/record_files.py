"""Records of the registry of deployments as files: JSON, or YAML in the form that the registry takes."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError
from fedboard.common.files import read_file

YAML = (".yaml", ".yml")
MOST_BYTES = 1_000_000
_DEEPEST, _MOST_TOKENS = 50, 20_000
"""Of YAML, whose reader takes time with the square of the depth, and much for each token."""


def record_text(record: dict[str, Any], place: Path) -> str:
    """A record as its file has it.

    Raises:
        InputError: a file of another kind.
    """
    suffix = place.suffix.lower()
    if suffix == ".json":
        return indented(record) + "\n"
    if suffix not in YAML:
        raise InputError(f"{place}: a record is written as .json or .yaml, by the end of the file's name")
    return _as_yaml(record)


def indented(record: dict[str, Any]) -> str:
    """For people."""
    return json.dumps(record, indent=2, ensure_ascii=False)


def read_record(place: Path) -> dict[str, Any]:
    """A record as it was written; what is in it was checked by nobody.

    Raises:
        InputError: it cannot be read, is no table, or says something in a way that two readers could read in two.
    """
    try:
        text = read_file(place, largest=MOST_BYTES).decode()
        found = _from_json(text) if place.suffix.lower() == ".json" else _from_yaml(text)
    except OSError as error:
        raise InputError(f"{place}: no record can be read there ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not a record: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise InputError(f"{place}: not a record: a record is a table of keys and values")
    return found


def _from_json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[Hashable, Any]]) -> dict[Hashable, Any]:
    """A table in which no key stands twice.

    Raises:
        ValueError: one does; which of them counts, readers disagree about.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _from_yaml(text: str) -> object:
    """Without aliases, by which a short text stands for an endless one."""
    import yaml

    loader: Any = type("Once", (yaml.SafeLoader,), {})
    loader.add_constructor(
        "tag:yaml.org,2002:map", lambda reading, node: _once(reading.construct_pairs(node, True))
    )
    try:
        depth = 0
        for number, token in enumerate(yaml.scan(text, Loader=yaml.SafeLoader)):
            if isinstance(token, yaml.AliasToken):
                raise ValueError("it has aliases in it")
            depth += token.id in ("{", "[", "<block mapping start>", "<block sequence start>")
            depth -= depth > 0 and token.id in ("}", "]", "<block end>")
            if depth > _DEEPEST:
                raise ValueError(f"its tables are nested more than {_DEEPEST} deep")
            if number > _MOST_TOKENS:
                raise ValueError(f"it has more than {_MOST_TOKENS} keys, values and marks")
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(str(error)) from None


def _as_yaml(record: dict[str, Any]) -> str:
    """Paragraphs as they are: the registry refuses text that is folded."""
    import yaml

    dumper: Any = type("Paragraphs", (yaml.SafeDumper,), {})
    dumper.add_representer(
        str,
        lambda writing, text: writing.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
    )
    return str(yaml.dump(record, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1_000_000))
