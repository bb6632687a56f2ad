"""Tuned defaults and search spaces: ``presets.toml`` and ``search.toml`` beside an algorithm.

Presets are hyper-parameters: choosing them by looking at private ratings would be a release of its own. Each file
says what its numbers were tuned on. ``presets-NAME.toml`` holds another recipe, such as a paper's own.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from fedboard.common.algorithms.shared.algorithm import Algorithm, Variant
from fedboard.common.algorithms.shared.ratings_config import Feedback, keys_of
from fedboard.common.errors import InputError

TUNED = "tuned"
"""The recipe that is usual: our own defaults."""
_PRESETS, _SEARCH = "presets.toml", "search.toml"
_RECIPE_FILE = re.compile(r"presets-([a-z0-9-]+)\.toml")


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
    where: dict[str, Any] = {}
    """Laid over where these settings are chosen alone, by hand or by what stands before it."""
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


def preset(
    variant: Variant,
    feedback: Feedback,
    epsilon: float,
    *,
    recipe: str = TUNED,
    chosen: Mapping[str, Any] | None = None,
) -> Preset:
    """The defaults nearest to this epsilon, on the log scale; empty where nothing was tuned.

    Args:
        variant: what is to be run.
        feedback: what it learns from.
        epsilon: > 0.
        recipe: whose defaults; one of ``recipes_of``.
        chosen: settings that somebody set by hand, where entries depend on them.

    Raises:
        InputError: there is no such recipe, or the file cannot be used; names it and what is wrong.
    """
    entries = _entries(variant, feedback, recipe)
    known = [entry.epsilon for entry in entries if _for_all(entry) and entry.epsilon is not None]
    if not known:
        return Preset()
    nearest = min(known, key=lambda tuned: abs(math.log(tuned / epsilon)))
    found = Preset()
    for entry in entries:
        settings = {**found.settings, **(chosen or {})}
        if (
            entry.epsilon in (None, nearest)
            and (not entry.variants or variant.name in entry.variants)
            and all(settings.get(name) == value for name, value in entry.where.items())
        ):
            found = Preset(
                settings={**found.settings, **entry.settings}, shares={**found.shares, **entry.shares}
            )
    return found


def recipes_of(algorithm: Algorithm) -> tuple[str, ...]:
    """Whose defaults there are for an algorithm: ``tuned``, and those of ``presets-NAME.toml`` beside it."""
    names = [] if algorithm.folder is None else [entry.name for entry in algorithm.folder.iterdir()]
    return (TUNED, *sorted(found[1] for name in names if (found := _RECIPE_FILE.fullmatch(name))))


def _for_all(entry: _Entry) -> bool:
    return not (entry.variants or entry.where)


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


def _entries(variant: Variant, feedback: Feedback, recipe: str) -> tuple[_Entry, ...]:
    algorithm = variant.algorithm
    if recipe not in (known := recipes_of(algorithm)):
        raise InputError(f"{variant.name} has no recipe {recipe!r}; it has {', '.join(known)}")
    file = _PRESETS if recipe == TUNED else f"presets-{recipe}.toml"
    presets: _Presets = _read(algorithm, file, _Presets)
    entries: tuple[_Entry, ...] = getattr(presets, feedback)
    where = f"{_place(algorithm, file)}: {feedback}"
    tuned = [entry.epsilon for entry in entries if _for_all(entry)]
    for entry in entries:
        if entry.epsilon is None and _for_all(entry):
            raise InputError(f"{where}: an entry without `variants` needs the epsilon that it was tuned at")
        if entry.epsilon is not None and not 0 < entry.epsilon < math.inf:
            raise InputError(f"{where}: epsilon must be finite and > 0, got {entry.epsilon}")
        if not _for_all(entry) and entry.epsilon is not None and entry.epsilon not in tuned:
            raise InputError(f"{where}: no entry for all is tuned at epsilon {entry.epsilon:g}")
        _require_known(algorithm, file, "variant", entry.variants, algorithm.names)
        _require_parameters(algorithm, file, {*entry.settings, *entry.where}, entry.shares)
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
        return _parsed(algorithm.folder.joinpath(file).read_text(encoding="utf-8"), kind)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{_place(algorithm, file)}: {error}") from error


@lru_cache(maxsize=64)
def _parsed(text: str, kind: Any) -> Any:
    """Remembered by the text, because sweeps and searches ask for each run again. To be read only."""
    return msgspec.convert(tomllib.loads(text), kind)


def _place(algorithm: Algorithm, file: str) -> str:
    return f"{file} of {algorithm.name}"
