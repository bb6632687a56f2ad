"""Tuned defaults and search spaces: ``presets.toml`` and ``search.toml`` beside an algorithm.

Presets are hyper-parameters: choosing them by looking at private ratings would be a release of its own. Each file
says what its numbers were tuned on.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.algorithm import Algorithm, Variant
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.written import keys_of

_PRESETS, _SEARCH = "presets.toml", "search.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Settings and budget shares that were tuned together. Public."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of ``presets.toml``."""

    epsilon: float | None = None
    """What it was tuned at; None for a variant at any epsilon."""
    variants: tuple[str, ...] = ()
    """Laid over for these names alone; for all where empty."""
    settings: dict[str, Any] = {}
    shares: dict[str, float] = {}


class _Presets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``presets.toml``."""

    explicit: tuple[_Entry, ...] = ()
    implicit: tuple[_Entry, ...] = ()


_Tables = dict[str, dict[str, Any]]


class _Spaces(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A variant's part of ``search.toml``."""

    explicit: _Tables = {}
    implicit: _Tables = {}


class _Search(_Spaces, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``search.toml``."""

    variants: dict[str, _Spaces] = {}


def preset(variant: Variant, feedback: Feedback, epsilon: float) -> Preset:
    """The tuned defaults nearest to this epsilon, on the log scale; empty where nothing was tuned.

    Args:
        variant: what is to be run.
        feedback: what it learns from.
        epsilon: > 0.

    Raises:
        InputError: the file cannot be used; names it and what is wrong.
    """
    entries = _entries(variant.algorithm, feedback)
    known = [entry.epsilon for entry in entries if not entry.variants and entry.epsilon is not None]
    if not known:
        return Preset()
    nearest = min(known, key=lambda tuned: abs(math.log(tuned / epsilon)))
    found = Preset()
    for entry in entries:
        if entry.epsilon in (None, nearest) and (not entry.variants or variant.name in entry.variants):
            found = Preset(
                settings={**found.settings, **entry.settings}, shares={**found.shares, **entry.shares}
            )
    return found


def search_tables(variant: Variant, feedback: Feedback) -> Mapping[str, Mapping[str, Any]]:
    """The tables ``settings`` and ``shares`` that a search looks in; empty where there are none.

    Raises:
        InputError: the file cannot be used.
    """
    algorithm = variant.algorithm
    search: _Search = _read(algorithm, _SEARCH, _Search)
    _require_known(algorithm, _SEARCH, "variant", search.variants, algorithm.names)
    own = search.variants.get(variant.name, _Spaces())
    found: dict[str, dict[str, Any]] = {}
    for tables in (getattr(search, feedback), getattr(own, feedback)):
        for section, parameters in tables.items():
            found[section] = {**found.get(section, {}), **parameters}
    _require_parameters(algorithm, _SEARCH, found.get("settings", {}), found.get("shares", {}))
    return found


def _entries(algorithm: Algorithm, feedback: Feedback) -> tuple[_Entry, ...]:
    presets: _Presets = _read(algorithm, _PRESETS, _Presets)
    entries: tuple[_Entry, ...] = getattr(presets, feedback)
    where = f"{_place(algorithm, _PRESETS)}: {feedback}"
    tuned = [entry.epsilon for entry in entries if not entry.variants]
    for entry in entries:
        if entry.epsilon is None and not entry.variants:
            raise InputError(f"{where}: an entry without `variants` needs the epsilon that it was tuned at")
        if entry.epsilon is not None and not 0 < entry.epsilon < math.inf:
            raise InputError(f"{where}: epsilon must be finite and > 0, got {entry.epsilon}")
        if entry.variants and entry.epsilon is not None and entry.epsilon not in tuned:
            raise InputError(f"{where}: no entry for all is tuned at epsilon {entry.epsilon:g}")
        _require_known(algorithm, _PRESETS, "variant", entry.variants, algorithm.names)
        _require_parameters(algorithm, _PRESETS, entry.settings, entry.shares)
    if len(set(tuned)) < len(tuned):
        raise InputError(f"{where}: two entries for all are tuned at the same epsilon")
    return entries


def _require_parameters(
    algorithm: Algorithm, file: str, settings: Iterable[str], shares: Iterable[str]
) -> None:
    for what, given, kind in (("setting", settings, algorithm.settings), ("share", shares, algorithm.shares)):
        _require_known(algorithm, file, what, given, keys_of(kind))


def _require_known(
    algorithm: Algorithm, file: str, what: str, given: Iterable[str], known: Iterable[str]
) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(
            f"{_place(algorithm, file)}: unknown {what} {unknown[0]!r}; known are {', '.join(sorted(known))}"
        )


def _read(algorithm: Algorithm, file: str, kind: Any) -> Any:
    """A file beside an algorithm; what an empty file says, where there is none."""
    if algorithm.folder is None or not algorithm.folder.joinpath(file).is_file():
        return kind()
    try:
        raw = tomllib.loads(algorithm.folder.joinpath(file).read_text(encoding="utf-8"))
        return msgspec.convert(raw, kind)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{_place(algorithm, file)}: {error}") from error


def _place(algorithm: Algorithm, file: str) -> str:
    return f"{file} of {algorithm.name}"
