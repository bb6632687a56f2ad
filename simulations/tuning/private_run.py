"""Trials, the release that compares them, the final run: all from one ledger, and each goes on where it stopped."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from fedboard.common.board import Board
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.task import ClientTask
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.splits import RatingSplit, SplitRule
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import backend_of, build_task, loading_of
from fedboard.simulations.runs.directory import Part, RunDirectory
from fedboard.simulations.runs.trainer import EngineTrainer, Listener, Simulated
from fedboard.simulations.simulate import RunResult, simulate
from fedboard.simulations.sweeps.cells import RecordFile, shared_problem
from fedboard.simulations.tuning.private_choice import (
    RELEASE,
    ChoiceTask,
    Chosen,
    Tried,
    chosen_of,
    write_chosen,
)
from fedboard.simulations.tuning.private_plan import (
    CHOICE_SHARE,
    PrivateTuneRecord,
    require_runnable,
    told_of,
)
from fedboard.simulations.tuning.trials import source_digest

RECORD = "tune.json"
LEDGER = "ledger.sqlite"
_RECORD = RecordFile(name=RECORD, kind=PrivateTuneRecord, what="a private choice")
CHOICE = "choice"
FINAL = "final"
OnNews = Callable[[str], None]
"""Told in a sentence how it is getting on; public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTuneResult:
    """A finished private choice. All of it is public but for the final run's held-out metrics."""

    record: PrivateTuneRecord
    chosen: Chosen
    final: RunResult
    ledger: Path


def start_tuning(record: PrivateTuneRecord, out: Path) -> None:
    """Make the directory, with the ledger that pays for everything, before anything is released.

    Guarantee: where there is an account of the population, the whole budget is kept there for this from now on.

    Raises:
        BudgetExceededError: the account of the population has not that much left.
        InputError: ``out`` is in use, or there is no such account.
    """
    privacy = record.config.privacy
    with ExitStack() as stack:
        account = None
        if privacy.population is not None:
            account = stack.enter_context(Population.open(privacy.population))
        _RECORD.begin(out, record, room="trials")
        try:
            ledger = Ledger.create(
                out / LEDGER,
                record.config.promise.budget,
                run=out.name or "tune",
                population=account,
                lineage=privacy.lineage,
                reserve=True,
            )
        except FedboardError:
            shutil.rmtree(out, ignore_errors=True)  # nothing is released yet
            raise
        stack.enter_context(ledger)


def is_private_tuning(out: Path) -> bool:
    """Whether a private choice was started there."""
    return (out / RECORD).is_file() and (out / LEDGER).is_file()


def read_private_record(out: Path) -> PrivateTuneRecord:
    """The record of what was started in a directory.

    Raises:
        InputError: nothing was, or with other code.
    """
    record = _RECORD.read(out)
    if record.source != source_digest():
        raise InputError(
            f"{out} was begun with other code, whose releases this one would not continue; start anew, with "
            "another --out (what was spent stays spent)"
        )
    return record


def tune_privately(
    record: PrivateTuneRecord,
    out: Path,
    *,
    on_news: OnNews | None = None,
    listener: Listener | None = None,
    report: bool = True,
) -> PrivateTuneResult:
    """Run what is not yet there of the trials, the comparison and the final run.

    Guarantee: everything that is released is booked before in the ledger of ``start_tuning``, whose budget is what
    every board's certificate claims; private noise is drawn once, however often this is interrupted and resumed.

    Args:
        record: from ``plan_private_tuning``, or read back.
        out: where ``start_tuning`` has been.
        on_news: told after each trial and after the choice.
        listener: is told about the final run.
        report: whether to draw the final run's report.

    Raises:
        PrivacyError: the ledger is missing or another one, or a trial lost its preparation.
    """
    tell = on_news or (lambda _: None)
    problem = shared_problem(record.trial(0))
    require_runnable(record, problem)
    work = _Work(record, out, problem)
    with WorkerPool(record.config.run.workers, prepare=loading_of(record.config.algorithm)) as pool:
        tried = []
        for number, candidate in enumerate(record.candidates):
            tried.append(work.trial(number, pool))
            tell(f"trial {number} of {len(record.candidates) - 1} is done: {told_of(candidate)}")
        compared = work.compare(tuple(tried), pool)
    chosen = chosen_of(record, compared)
    write_chosen(chosen, out)
    tell(chosen.sentence)
    config, folder = record.final(chosen.number), out / FINAL
    final = simulate(
        config,
        folder,
        resume=RunDirectory(folder).config.exists(),
        listener=listener,
        problem=shared_problem(config),
        report=report,
        part=work.part(FINAL, *chosen.assumptions),
    )
    work.finish()
    return PrivateTuneResult(record=record, chosen=chosen, final=final, ledger=out / LEDGER)


@dataclass(frozen=True, slots=True)
class _Work:
    """One private choice under way."""

    record: PrivateTuneRecord
    out: Path
    problem: Problem
    """Of the trials: private but for its public parts."""

    def part(self, name: str, *assumptions: str) -> Part:
        """One of the runs that the ledger pays for."""
        population = self.record.config.privacy.population
        return Part(
            ledger=self.out / LEDGER,
            budget=self.record.config.promise.budget,
            name=name,
            population=None if population is None else Path(population),
            assumptions=assumptions,
        )

    def trial(self, number: int, pool: WorkerPool) -> Tried:
        """Train with candidate ``number`` at its share; nothing is judged."""
        config, name, problem = self.record.trial(number), f"trial-{number}", self.problem
        backend, features = backend_of(config, problem), problem.feature_values
        task = build_task(config, rating_range=problem.rating_range, backend=backend, features=features).task
        tried = self.record.candidates
        said = f"This board is one of {len(tried)} trials: {told_of(tried[number])}."
        place = self.out / "trials" / name
        return Tried(task=task, board=_trained(config, problem, task, place, self.part(name, said), pool))

    def compare(self, tried: tuple[Tried, ...], pool: WorkerPool) -> Board | None:
        """The board of the comparison; None where it was paid for, never published, and cannot be drawn again."""
        split, record = self.problem.split, self.record
        if not isinstance(split, RatingSplit) or not isinstance(split.rule, SplitRule):
            raise PrivacyError("a private choice needs a split in which each rating has a coin of its own")
        task = ChoiceTask(
            tried=tried,
            rule=split.rule,
            item_keys=id_keys(self.problem.catalogue.item_ids, Kind.ITEM),
            rating_range=self.problem.rating_range,
            adjacency=record.config.privacy.adjacency,
            noise_multiplier=record.choice_noise,
        )
        folder, part = self.out / CHOICE, self.part(CHOICE)
        if record.config.privacy.noise == "secure" and self._lost(folder, part.prefix + RELEASE):
            return None
        trial = record.trial(0)
        privacy = msgspec.structs.replace(trial.privacy, epsilon=record.epsilon_of_share(CHOICE_SHARE))
        config = msgspec.structs.replace(trial, privacy=privacy)
        both, rule = split.train_and_validation, replace(split.rule, validation=0.0)
        held = replace(self.problem, train=both, split=replace(split, train=both, rule=rule))
        return _trained(config, held, task, folder, part, pool)

    def finish(self) -> None:
        """Give back to the account what was reserved and not used."""
        privacy = self.record.config.privacy
        if privacy.population is None:
            return
        with (
            Population.open(privacy.population) as account,
            Ledger.open(self.out / LEDGER, population=account) as ledger,
        ):
            ledger.finish()

    def _lost(self, folder: Path, release: str) -> bool:
        with Ledger.open(self.out / LEDGER, read_only=True) as ledger:
            booked = any(event["name"] == release for event in ledger.events())
        return booked and 1 not in BoardStore(folder / "boards").versions()


def _trained(
    config: SimulationConfig, problem: Problem, task: ClientTask, folder: Path, part: Part, pool: WorkerPool
) -> Board:
    """The last board of a run, trained from wherever it stopped; nothing of it is judged."""
    run = RunDirectory(folder)
    run.boards.mkdir(parents=True, exist_ok=True)
    simulated = Simulated(
        config=config,
        run=run,
        problem=problem,
        task=task,
        backend=backend_of(config, problem),
        listener=Listener(),
        part=part,
    )
    with ExitStack() as stack:
        trainer = EngineTrainer(simulated, pool=pool, stack=stack)
        boards = [trainer.start()]
        trainer.run(boards[0], lambda finished: boards.append(finished.board))
    return boards[-1]
