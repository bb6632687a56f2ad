"""What the frontier benchmark runs: data sets x algorithms (or variants of them) x epsilons x seeds."""

import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fedboard.cli.research.configuration import configure
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import algorithm_names
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.config import SimulationConfig, overlay, read_config
from fedboard.simulations.datasets import find_data
from fedboard.simulations.judging.references import ALS, reference_names
from fedboard.simulations.runs.without_privacy import is_reference
from fedboard.simulations.sweeps.cells import Cell

_NAME = re.compile(r"[\w.+-]+")
_KEYS = frozenset({"algorithm", "at", "data", "feedback", "privacy", "run", "settings", "split"})


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An algorithm, or one with other settings, under a name of its own."""

    name: str
    algorithm: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Laid over the configuration."""
    at: Mapping[float, Mapping[str, Any]] = field(default_factory=dict)
    """Laid over that, at one epsilon."""
    assignments: tuple[str, ...] = ()
    """``key=value``, laid over all."""
    feedback: str | None = None
    """The only one it is for."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    name: str
    source: str
    feedbacks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One cell and where it belongs."""

    data: str
    feedback: str
    variant: str
    epsilon: str | None
    """As it was given; None without privacy."""
    cell: Cell


@dataclass(frozen=True, kw_only=True)
class Plan:
    data: tuple[DataSet, ...]
    variants: tuple[Variant, ...]
    epsilons: tuple[str, ...]
    seeds: tuple[int, ...]
    assignments: tuple[str, ...]
    with_references: bool

    def runs(self) -> list[Run]:
        """All runs, those on the same ratings one after the other."""
        found = [run for data in self.data for feedback in data.feedbacks for run in self._of(data, feedback)]
        return sorted(found, key=lambda run: (self._place(run), repr(run.cell.config.data)))

    def _place(self, run: Run) -> tuple[int, str]:
        return [data.name for data in self.data].index(run.data), run.feedback

    def _of(self, data: DataSet, feedback: str) -> Iterator[Run]:
        chosen = [variant.name for variant in self.variants if is_reference(variant.algorithm)]
        for name in reference_names(Feedback(feedback)):
            if self.with_references or name in chosen:
                yield self._reference(data, feedback, name)
        for variant in self.variants:
            if is_reference(variant.algorithm) or variant.feedback not in (None, feedback):
                continue
            for epsilon in self.epsilons:
                for seed in self.seeds:
                    yield self._private(data, feedback, variant, epsilon, seed)

    def _private(self, data: DataSet, feedback: str, variant: Variant, epsilon: str, seed: int) -> Run:
        own = {"algorithm": variant.algorithm, "seed": seed, "privacy": {"epsilon": float(epsilon)}}
        changes = overlay(dict(variant.changes), dict(variant.at.get(float(epsilon), {})))
        config = self._config(data, feedback, overlay(changes, own), variant.assignments, variant.name)
        name = f"{variant.name}-eps{float(epsilon):g}-seed{seed}"
        cell = Cell(name=name, config=config)
        return Run(data=data.name, feedback=feedback, variant=variant.name, epsilon=epsilon, cell=cell)

    def _reference(self, data: DataSet, feedback: str, name: str) -> Run:
        """Of the settings, which are those of the private algorithms, only the rank has a meaning here."""
        config = self._config(data, feedback, {"algorithm": name, "seed": self.seeds[0]}, (), name)
        settings = {key: value for key, value in config.settings.items() if (name, key) == (ALS, "rank")}
        cell = Cell(name=name, config=msgspec.structs.replace(config, settings=settings))
        return Run(data=data.name, feedback=feedback, variant=name, epsilon=None, cell=cell)

    def _config(
        self,
        data: DataSet,
        feedback: str,
        changes: Mapping[str, Any],
        assignments: Iterable[str],
        source: str,
    ) -> SimulationConfig:
        base = {
            "feedback": feedback,
            "data": {"source": data.source},
            "run": {"baselines": False, "evaluate_rounds": False, "workers": 1},
        }
        shared = (*self.assignments, *assignments)
        return configure(overlay(base, dict(changes)), {}, shared, source=source)


def data_sets(sources: Sequence[str], feedback: str | None) -> tuple[DataSet, ...]:
    """Data by path or name.

    Args:
        sources: as given.
        feedback: ``explicit``, ``implicit``, ``both``, or None for both save where a data set brings its own
            test part, which top-k lists would leave aside.
    """
    found = []
    for given in sources:
        place = find_data(given)
        every = tuple(str(kind) for kind in Feedback)
        kinds = every if feedback == "both" else (feedback,) if feedback else every
        if feedback is None and _brings_test_part(Path(place)):
            kinds = ("explicit",)
        name = given if given == "synthetic" else Path(place).resolve().name.removesuffix(".zip")
        found.append(DataSet(name=name.removesuffix(".npz"), source=place, feedbacks=kinds))
    _require_unique("--data", [data.name for data in found])
    return tuple(found)


def plain_variants(names: Sequence[str]) -> list[Variant]:
    """Algorithms as they are shipped; all private ones where none is named."""
    fits = {kind: {*algorithm_names(kind), *reference_names(kind)} for kind in Feedback}
    return [
        Variant(name=name, algorithm=name, feedback=only[0] if len(only) == 1 else None)
        for name in names or algorithm_names()
        for only in ([str(kind) for kind in Feedback if name in fits[kind]],)
    ]


def variant_of(words: Sequence[str]) -> Variant:
    """``NAME ALGORITHM KEY=VALUE ..``; a key without a dot is one of the settings."""
    if len(words) < 2:
        raise InputError("--variant needs NAME ALGORITHM [KEY=VALUE ..]")
    name, algorithm, *changes = words
    keyed = tuple(text if "." in text.partition("=")[0] else f"settings.{text}" for text in changes)
    return Variant(name=name, algorithm=algorithm, assignments=keyed)


def read_variants(path: Path) -> list[Variant]:
    """A TOML file: a table per variant with ``algorithm`` and what it changes of the configuration."""
    return [_read_variant(path, name, table) for name, table in read_config(path).items()]


def _read_variant(path: Path, name: str, table: Any) -> Variant:
    if not isinstance(table, dict) or not isinstance(table.get("algorithm"), str):
        raise InputError(f"{path}: [{name}] must be a table that names its algorithm")
    at, unknown = table.get("at", {}), sorted(set(table) - _KEYS)
    if unknown:
        raise InputError(
            f"{path}: [{name}] has an unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}"
        )
    try:
        by_epsilon = {float(epsilon): dict(changes) for epsilon, changes in at.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path}: [{name}.at] must have a table per epsilon") from error
    return Variant(
        name=name,
        algorithm=table["algorithm"],
        changes={key: value for key, value in table.items() if key not in ("algorithm", "at", "feedback")},
        at=by_epsilon,
        feedback=table.get("feedback"),
    )


def check(plan: Plan) -> None:
    """Refuse what cannot be run, before anything is."""
    references = {name for feedback in Feedback for name in reference_names(feedback)}
    known = (*algorithm_names(), *sorted(references))
    _require_unique("variants", [variant.name for variant in plan.variants])
    _require_unique("--epsilon", [f"{float(epsilon):g}" for epsilon in plan.epsilons])
    for variant in plan.variants:
        if variant.algorithm not in known:
            raise InputError(f"algorithms must be among {', '.join(known)}, got {variant.algorithm!r}")
        if not _NAME.fullmatch(variant.name):
            raise InputError(
                f"names of variants are of letters, digits, '.', '+' and '-', got {variant.name!r}"
            )
        if variant.name != variant.algorithm and variant.name in known:
            raise InputError(f"a variant needs a name of its own, {variant.name!r} is an algorithm")
        if variant.feedback not in (None, *map(str, Feedback)):
            raise InputError(
                f"[{variant.name}]: feedback must be explicit or implicit, got {variant.feedback!r}"
            )


def epsilon_text(text: str) -> str:
    """An epsilon as it was given; ``ValueError`` where it is none."""
    if not 0 < float(text) < math.inf:
        raise ValueError(text)
    return text


def _require_unique(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{what}: {twice[0]} is there twice")


def _brings_test_part(path: Path) -> bool:
    if path.suffix != ".npz" or not path.is_file():
        return False
    with zipfile.ZipFile(path) as stored:
        return "test_user.npy" in stored.namelist()
