"""From keywords to one checked configuration: short names as of the command line, sections as of a TOML file."""

from collections.abc import Mapping
from multiprocessing import current_process
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError
from fedboard.ratings import InMemory, Table, load_ratings
from fedboard.simulations.config import KEYS, SimulationConfig, base_of, configured
from fedboard.simulations.problem import Problem, problem_of
from fedboard.simulations.runs.trainer import parse_participation

IN_MEMORY = "memory"
"""What a run's record calls ratings that came from no file."""


def configuration_of(
    config: str | Path | Mapping[str, Any] | None,
    data: str | Path | Mapping[str, Any] | InMemory | None,
    keywords: Mapping[str, Any],
    *,
    place: Path | None = None,
    resume: bool = False,
) -> tuple[SimulationConfig, Problem | None]:
    """The configuration, and the split ratings where they are in memory.

    Args:
        config: a TOML file, or what one would hold; keywords are laid over it.
        data: where the ratings are, or the ratings, or the section ``data``.
        keywords: short names (``epsilon``), sections (``privacy={...}``) or other keys of the configuration; None
            is not given.
        place: of the run.
        resume: whether it is there already; then its own record is what keywords are laid over.

    Raises:
        InputError: a key or value that is not one, said in the words that a file gets; or a key given twice.
    """
    given = {name: value for name, value in keywords.items() if value is not None}
    at_hand: InMemory | None = None
    if isinstance(data, str | Path):
        given["data"] = str(data)
    elif isinstance(data, Mapping) and not isinstance(data, Table):
        given["data"] = data
    elif data is not None:
        given["data"], at_hand = IN_MEMORY, data
    if isinstance(config, Mapping):
        base, source = dict(config), "the keywords"
    else:
        file = None if config is None else Path(config)
        base, source = base_of(file, place, resume=resume), str(file or "the keywords")
    checked = configured(base, _settings(given), source=source)
    if at_hand is None:
        return checked, None
    section = checked.data
    ratings = load_ratings(
        at_hand,
        rating_range=section.rating_range,
        columns=section.columns,
        catalogue="listed" if section.catalogue == "listed" else "rated",
    )
    return checked, problem_of(ratings, checked)


def require_main_process() -> None:
    """Refuse to start from a file that a worker process is just importing.

    Raises:
        InputError: says what to write.
    """
    if getattr(current_process(), "_inheriting", False):
        raise InputError(
            "a worker process imports this file and would start over: put what starts a run below "
            "if __name__ == '__main__':"
        )


def _settings(given: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Sections first, so that a short name goes into its section; what is said twice is refused."""
    named = {KEYS[name]: (name, value) for name, value in given.items() if _is_short(name, value)}
    sections = {name: value for name, value in given.items() if not _is_short(name, value)}
    for key, (name, _) in named.items():
        section, _, inner = key.partition(".")
        if isinstance(sections.get(section), Mapping) and inner in sections[section]:
            raise InputError(f"{name} is given twice: by itself and as {inner!r} in {section}")
    plain = {key: _plain(name, value) for key, (name, value) in named.items()}
    return [*((name, _dictionary(value)) for name, value in sections.items()), *plain.items()]


def _is_short(name: str, value: object) -> bool:
    return name in KEYS and not (name == "data" and isinstance(value, Mapping))


def _plain(name: str, value: Any) -> Any:
    if name == "participation" and isinstance(value, str):
        return parse_participation(value)
    return str(value) if isinstance(value, Path) else value


def _dictionary(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
