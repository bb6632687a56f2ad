"""Many runs as one question: a grid of algorithms, epsilons and seeds, and the frontier that comes out."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import msgspec

from fedboard.common.algorithms.registry import algorithm_names, floor_names, named
from fedboard.common.checks import did_you_mean, require_whole
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import says
from fedboard.common.reports.wording import numbers, numeric_entries
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.splits.coins import Fold
from fedboard.simulations.evaluation.references import ALS, ceiling_names, is_reference, reference_names
from fedboard.simulations.own_code import is_own
from fedboard.simulations.problem import Problem, StreamedProblem
from fedboard.simulations.runs.calibrated import chosen_algorithm, label_of
from fedboard.simulations.sections import RunConfig, SplitConfig
from fedboard.simulations.sessions.choice import chosen_card
from fedboard.simulations.sweeps.cells import Cell, CellOutcome, RecordFile, run_cells
from fedboard.simulations.sweeps.frontier import Result, write_frontier

FAILURES = "failures.txt"
"""Tracebacks of the cells that failed, in the directory of the sweep."""


class Grid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The axes of a sweep."""

    algorithms: tuple[str, ...] = ("", ALS)
    """Private ones, and references without privacy; empty for the usual one of the feedback."""
    floors: bool = False
    """Whether the simplest private algorithms are run too, as shipped, whatever settings the others have."""
    epsilons: tuple[float, ...] = (1.0, 5.0, 20.0)
    seeds: tuple[int, ...] = (0,)
    """Of noise and first factors; the split stays the same."""
    protocols: tuple[str, ...] = ()
    """How contributions become sums: every private cell under each; none: under the shared configuration's."""
    folds: int | None = None
    """k >= 2: every cell on each of the k folds of the split, also those without privacy; None: on one split."""


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sweep writes down to be resumed."""

    grid: Grid = Grid()
    config: SimulationConfig = SimulationConfig()
    """What all cells share."""

    def __post_init__(self) -> None:
        """Name the algorithm where nobody did."""
        algorithms = named(self.grid.algorithms, self.config.feedback)
        msgspec.structs.force_setattr(self, "grid", msgspec.structs.replace(self.grid, algorithms=algorithms))


_RECORD = RecordFile(name="sweep.json", kind=SweepRecord, what="a sweep")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """All outcomes in the order of the grid, and the files of the frontier (none if every cell failed)."""

    outcomes: tuple[CellOutcome, ...]
    frontier: tuple[Path, ...]

    @property
    def failed(self) -> tuple[CellOutcome, ...]:
        """The cells that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)


OnDone = Callable[[CellOutcome], None]


def plan_cells(record: SweepRecord) -> tuple[Cell, ...]:
    """The cells of a sweep; algorithms without privacy have one cell each.

    Raises:
        InputError: an unknown algorithm, an epsilon that is not > 0, or an empty grid.
        PrivacyError: secure noise, and no account of the users.
    """
    grid, config = record.grid, record.config
    if config.privacy.noise == "secure" and config.privacy.population is None:
        raise PrivacyError(
            "with secure noise the boards of a sweep, about the same users, would claim their epsilons one by one: "
            "name the account that adds them up with --set privacy.population=FILE (made by fedboard ledger create)"
        )
    known = (
        *algorithm_names(config.feedback),
        *reference_names(config.feedback),
        *ceiling_names(config.feedback),
    )
    own = [choice for choice in grid.algorithms if is_own(choice)]
    unknown = [name for name in grid.algorithms if name not in (*known, *own)]
    if unknown:
        meant = did_you_mean(unknown[0], known)
        raise InputError(f"algorithms must be among {', '.join(known)}, got {unknown[0]!r}{meant}")
    for choice in own:
        chosen_algorithm(choice)
    for protocol in grid.protocols:
        chosen_card(protocol)
    if len({label_of(choice) for choice in grid.algorithms}) < len(grid.algorithms):
        raise InputError("two algorithms of a sweep go by the same name; name one of the files otherwise")
    if not all(0 < epsilon < math.inf for epsilon in grid.epsilons):
        raise InputError(
            f"epsilons must be finite and > 0, got {', '.join(f'{epsilon:g}' for epsilon in grid.epsilons)}"
        )
    if not all(seed >= 0 for seed in grid.seeds):
        raise InputError(f"seeds must be >= 0, got {', '.join(map(str, grid.seeds))}")
    if not (grid.algorithms and grid.epsilons and grid.seeds):
        raise InputError("a sweep needs at least one algorithm, one epsilon and one seed")
    # Baselines are cells of their own, and cells run side by side with one worker each.
    alone = msgspec.structs.replace(config.run, workers=1, baselines=False)
    shared = msgspec.structs.replace(config, run=alone)
    if grid.folds is None:
        return tuple(_cells_on(shared, grid))
    splits = _folds(config.split, grid.folds)
    by_fold = [_cells_on(msgspec.structs.replace(shared, split=split), grid) for split in splits]
    return tuple(
        replace(cell, name=f"{cell.name}-fold{fold}") for fold, cells in enumerate(by_fold) for cell in cells
    )


def _folds(split: SplitConfig, folds: int) -> list[SplitConfig]:
    """The split on each fold.

    Raises:
        InputError: fewer than two, or a split by time.
    """
    Fold(number=0, of=folds)
    if split.by_time:
        raise InputError("--folds is for a split by coins: leave out split.test_from and split.leave_last")
    return [msgspec.structs.replace(split, folds=folds, fold=fold) for fold in range(folds)]


def _cells_on(shared: SimulationConfig, grid: Grid) -> list[Cell]:
    """The cells on one split."""
    cells = [cell for name in grid.algorithms for cell in _cells_of(name, shared, grid)]
    if grid.floors:
        as_shipped = msgspec.structs.replace(
            shared, settings={}, privacy=msgspec.structs.replace(shared.privacy, shares={}), tuned=None
        )
        missing = [name for name in floor_names(shared.feedback) if name not in grid.algorithms]
        cells += [cell for name in missing for cell in _cells_of(name, as_shipped, grid)]
    return cells


def sweep(
    record: SweepRecord,
    out: Path,
    *,
    jobs: int = 1,
    resume: bool = False,
    on_done: OnDone | None = None,
    problem: Problem | StreamedProblem | None = None,
) -> SweepResult:
    """Run the cells, then draw the privacy-utility frontier of those that succeeded.

    A failed cell does not stop the others. With ``resume``, finished cells are kept, unfinished ones go on
    from their last board, and the grid may have grown.

    Args:
        record: grid and shared configuration.
        out: cells go to ``out/cells/<name>``, the frontier to ``out``.
        jobs: number of processes, >= 1; with one, cells run in this process.
        resume: continue the sweep that is there.
        on_done: told about each cell as it ends, in any order.
        problem: the data of all cells, if they are loaded already; only with one process. Private.

    Raises:
        InputError: the grid cannot be run, a sweep is there already and ``resume`` is not given, or jobs < 1.
    """
    cells = plan_cells(record)
    require_whole("jobs", jobs)
    if record.grid.folds is not None and problem is not None:
        raise InputError("folds split the data anew for each: give the data by a path, not loaded already")
    _RECORD.begin(out, record, room="cells", resume=resume)
    ended: dict[str, CellOutcome] = {}
    for outcome in run_cells(cells, out / "cells", jobs=min(jobs, len(cells)), problem=problem):
        ended[outcome.cell.name] = outcome
        if on_done is not None:
            on_done(outcome)
    outcomes = tuple(ended[cell.name] for cell in cells)
    _write_failures(out / FAILURES, outcomes)
    several = len(record.grid.protocols) > 1
    found = [_result(outcome, several) for outcome in outcomes if outcome.final is not None]
    results = [one for one in found if one.metrics]
    return SweepResult(outcomes=outcomes, frontier=tuple(write_frontier(results, out)) if results else ())


def read_record(out: Path) -> SweepRecord:
    """The record of the sweep in a directory.

    Raises:
        InputError: no sweep is there.
    """
    return _RECORD.read(out)


def _write_failures(path: Path, outcomes: Sequence[CellOutcome]) -> None:
    failed = [f"{o.cell.name}: {o.error}\n{o.trace}" for o in outcomes if o.error is not None]
    if failed:
        path.write_text("\n".join(failed), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def _cells_of(algorithm: str, shared: SimulationConfig, grid: Grid) -> list[Cell]:
    if is_reference(algorithm):
        # Of the shared settings, which are those of the private algorithms, only the rank has a meaning here.
        settings = {
            name: value for name, value in shared.settings.items() if name == "rank" and algorithm == ALS
        }
        config = msgspec.structs.replace(shared, algorithm=algorithm, settings=settings, seed=grid.seeds[0])
        return [Cell(name=algorithm, config=config)]
    runs = {f"-{_plain(name)}": _under(name, shared) for name in grid.protocols} or {"": shared.run}
    cells = []
    for epsilon, seed, (ending, run) in product(grid.epsilons, grid.seeds, runs.items()):
        privacy = msgspec.structs.replace(shared.privacy, epsilon=epsilon)
        config = msgspec.structs.replace(shared, algorithm=algorithm, privacy=privacy, seed=seed, run=run)
        name = f"{label_of(algorithm)}-eps{epsilon:g}-seed{seed}{ending}"
        cells.append(Cell(name=name, config=config))
    return cells


def _under(protocol: str, shared: SimulationConfig) -> RunConfig:
    """The same run under a protocol, with those of the settings that it has."""
    run = msgspec.structs.replace(shared.run, protocol=protocol)
    if says(protocol, shows_rows):
        return msgspec.structs.replace(run, protocol_settings={}, clients=None, dropout=0.0)
    card = chosen_card(protocol)
    known = {*card.meanings, *card.optional}
    own = {key: value for key, value in run.protocol_settings.items() if key in known}
    return msgspec.structs.replace(run, protocol_settings=own)


def _plain(choice: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^\w.-]+", "-", choice).strip("-.")


def _result(outcome: CellOutcome, several: bool) -> Result:
    """What is drawn of a cell; of several protocols the name says which."""
    config, final = outcome.cell.config, outcome.final or {}
    private = not is_reference(config.algorithm)
    under = f", {config.run.protocol}" if several and private else ""
    sliced = {
        name: numbers(values) for name, values in final.get("sliced", {}).items() if name != "bucket_edges"
    }
    return Result(
        algorithm=f"{label_of(config.algorithm)}{under}",
        epsilon=config.privacy.epsilon if private else None,
        delta=config.privacy.delta if private else None,
        seed=config.seed,
        fold=None if config.split.folds is None else config.split.fold,
        metrics=numeric_entries(final.get("metrics")),
        sliced=sliced,
    )
