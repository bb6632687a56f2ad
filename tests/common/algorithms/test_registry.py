"""The registry: what is installed is found by its name and by nothing else, from this package and from others."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec
import pytest

from fedboard.common.algorithms import registry
from fedboard.common.algorithms.registry import (
    ALGORITHMS,
    ENTRY_POINTS,
    USUAL,
    algorithm_names,
    algorithm_of,
    installed,
    rebuild_task,
    usual,
    variant_of,
)
from fedboard.common.algorithms.residual.algorithm import ALGORITHM as RESIDUAL
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import InputError
from fedboard.server.fleet.settings import TaskSection
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.sweeps.sweep import SweepRecord

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Makes this process believe that packages with such entry points are installed."""

    def install(**values: str) -> None:
        entries = tuple(
            EntryPoint(name=name.replace("_", "-"), value=value, group=ENTRY_POINTS)
            for name, value in values.items()
        )
        monkeypatch.setattr(
            registry, "entry_points", lambda *, group: entries if group == ENTRY_POINTS else ()
        )

    yield install
    registry._others.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a module that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def package(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)

    return package


TAKEN = """
from dataclasses import replace
from fedboard.common.algorithms.residual.algorithm import ALGORITHM
RECORD = replace(ALGORITHM, name={name!r}, variants={variants!r}, folder=None)
"""


def board_of(task: str) -> Board:
    """A board that states this task, as a server may write it down."""
    catalogue = Catalogue(item_ids=("a", "b"), titles=("A", "B"))
    made = RESIDUAL.task(RESIDUAL.settings(rank=2), backend="numpy", features=None).first_board(catalogue)
    return replace(made, task=task)


def test_each_line_is_an_algorithm_whose_record_has_its_name() -> None:
    assert tuple(algorithm.name for algorithm in installed())[: len(ALGORITHMS)] == ALGORITHMS
    assert USUAL in ALGORITHMS
    for feedback in Feedback:
        assert usual(feedback) in algorithm_names(feedback)
    for name in ALGORITHMS:
        assert algorithm_of(name).name == name


def test_lists_are_learnt_by_what_does_not_lose_to_popularity_where_nobody_says_by_what() -> None:
    assert [usual(Feedback.EXPLICIT), usual("explicit")] == [USUAL, "residual"]
    assert usual("implicit") == "topk"
    for section in (SimulationConfig, TaskSection):
        for feedback in Feedback:
            taken = {"feedback": str(feedback)}
            assert msgspec.convert(taken, section).algorithm == usual(feedback)
            assert msgspec.convert({**taken, "algorithm": "adadpals"}, section).algorithm == "adadpals"
    lists = SweepRecord(config=SimulationConfig(feedback=Feedback.IMPLICIT))
    assert lists.grid.algorithms == ("topk", "als")
    assert SweepRecord().grid.algorithms == ("residual", "als")


def test_names_are_one_algorithms_each_and_those_of_a_feedback_learn_from_it() -> None:
    assert len(set(algorithm_names())) == len(algorithm_names())
    for feedback in Feedback:
        for name in algorithm_names():
            assert (name in algorithm_names(feedback)) == (feedback in variant_of(name).algorithm.feedback)
    assert "langevin" not in algorithm_names(Feedback.IMPLICIT)


@pytest.mark.slow
def test_only_the_algorithm_that_is_asked_for_is_imported() -> None:
    import subprocess

    code = (
        "import sys; from fedboard.common.algorithms.registry import algorithm_of; algorithm_of('residual'); "
        "print([n for n in sys.modules if n.startswith('fedboard.common.algorithms.')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "fedboard.common.algorithms.residual.algorithm" in shown
    assert "adadpals" not in shown
    assert "langevin" not in shown


# What a server states.


@pytest.mark.parametrize(
    "stated",
    [
        "dpals-tail",
        "shared",
        "registry",
        "Residual",
        "residual ",
        "residual.task",
        "adadpals/../residual",
        "..tasks.residual",
        "fedboard.common.algorithms.residual.algorithm:ALGORITHM",
        "os:system",
        "",
    ],
)
def test_a_board_of_an_algorithm_that_is_not_installed_is_refused(stated: str) -> None:
    before = set(sys.modules)

    with pytest.raises(InputError, match="not installed here"):
        rebuild_task(board_of(stated))

    assert set(sys.modules) == before


def test_a_board_of_a_task_on_examples_is_refused_where_ratings_are_learnt_from() -> None:
    with pytest.raises(InputError, match="learnt from examples has features and no items"):
        rebuild_task(board_of("representation"))


def test_a_device_runs_no_code_that_a_board_names(
    tmp_path: Path, package: Callable[[str, str], None], install: Install
) -> None:
    """Neither a file, nor a module that could be imported, nor an installed package's without its name."""
    marker = tmp_path / "it-ran"
    code = f"open({str(marker)!r}, 'w').close()\n" + TAKEN.format(name="evil", variants={})
    package("evil", code)
    install(other="evil_elsewhere:RECORD")

    for stated in (f"{tmp_path}/evil.py:RECORD", "evil.py:RECORD", "evil:RECORD", "evil.RECORD", "evil"):
        with pytest.raises(InputError, match="not installed here"):
            rebuild_task(board_of(stated))
    assert not marker.exists()
    install(evil="evil:RECORD")  # negative control: installed under its name, it is what runs
    assert algorithm_of("evil").name == "evil"
    assert marker.exists()


# Other packages.


def test_an_installed_package_brings_an_algorithm_by_an_entry_point(
    package: Callable[[str, str], None], install: Install
) -> None:
    package(
        "brought",
        TAKEN.format(name="brought", variants={"brought": {}, "brought-long": {"step": 2.0}}),
    )
    install(brought="brought:RECORD")

    assert algorithm_names()[-2:] == ("brought", "brought-long")
    assert variant_of("brought").fixed == {}
    assert variant_of("brought-long").fixed == {"step": 2.0}
    assert algorithm_of("brought") in list(installed())


def test_a_name_that_two_packages_bring_is_refused_and_stops_nobody_else(
    package: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    package("one", TAKEN.format(name="twice", variants={}))
    both = tuple(
        EntryPoint(name="twice", value=f"{name}:RECORD", group=ENTRY_POINTS) for name in ("one", "two")
    )
    monkeypatch.setattr(registry, "entry_points", lambda *, group: both)

    with pytest.raises(InputError, match="brought by two packages, as one:RECORD and two:RECORD"):
        rebuild_task(board_of("twice"))
    assert "twice" not in algorithm_names()


def test_a_record_whose_tasks_have_another_name_makes_none(
    package: Callable[[str, str], None], install: Install
) -> None:
    """Its boards would be held to the rules of the other."""
    package("masked", TAKEN.format(name="masked", variants={}))
    install(masked="masked:RECORD")

    with pytest.raises(InputError, match="'masked' makes tasks that are called 'residual'"):
        rebuild_task(board_of("masked"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_that_exists", "ModuleNotFoundError"),
        ("raise RuntimeError('half installed')", "half installed"),
        ("RECORD = 3", "must be an Algorithm record"),
        ("", "has no attribute 'RECORD'"),
        (TAKEN.format(name="another", variants={}), "got the record of 'another'"),
    ],
)
def test_a_broken_package_says_why_when_it_is_asked_for_and_stops_nobody_else(
    package: Callable[[str, str], None], install: Install, text: str, reason: str
) -> None:
    package("broken", text)
    install(broken="broken:RECORD")

    with pytest.raises(InputError, match=reason):
        algorithm_of("broken")
    with pytest.raises(InputError, match=reason):
        variant_of("broken")
    with pytest.raises(InputError, match=reason):
        rebuild_task(board_of("broken"))
    assert "broken" not in algorithm_names()
    assert variant_of("dpals-tail").algorithm.name == "adadpals"
    with pytest.raises(
        InputError, match=r"algorithm must be one of .* got 'nope' .*not to be loaded: broken"
    ):
        variant_of("nope")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "Big"}, "lower case words"),
        ({"name": "a/b"}, "lower case words"),
        ({"name": "a:b"}, "lower case words"),
        ({"name": "other", "variants": {"one": {}}}, "must name it"),
        ({"variants": {"residual": {}, "../x": {}}}, "lower case words"),
        ({"feedback": frozenset()}, "explicit or implicit"),
    ],
)
def test_a_record_with_names_that_are_none_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        replace(RESIDUAL, **change)  # type: ignore[arg-type]


def test_a_file_of_ones_own_is_for_simulations() -> None:
    """What devices could not rebuild is refused where a fleet names its algorithm, and none of its code runs."""
    with pytest.raises(InputError, match="a fleet takes what is installed"):
        variant_of("own.py:ALGORITHM")
