"""Kill -9 a run again and again, with both ledgers on, and hold what is left against what was released.

usage: python benchmarks/crashes.py [--kills 20] [--seed 0] [--controls] [--json FILE]

Each kill ends a real process: at a random moment, or just before or after a random step that touches the disk or
draws noise (bookings in the population's and in the run's ledger, commits, draws, boards, records). After every
kill and every resume, for seeded and for secure noise:

* every published board is whole, its certificate holds, its releases are booked in both ledgers, and what they
  cost, recomputed from each ledger, is at least what the board states;
* every draw of noise was booked before it was made; a published board never changes;
* secure noise: no release has ever been drawn twice; seeded noise: drawn again it is the same, and the final board
  is that of an undisturbed run.

``--controls`` runs two broken versions, which must be caught: one that books after publishing, one that draws
secure noise again for a release that is booked.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads must not be forked
os.environ["PYTHONWARNINGS"] = (
    "ignore::UserWarning:multiprocessing.resource_tracker"  # it tidies up after kills
)

from fleets.broken_servers import booked_late, drawn_again
from fleets.watching import append_line, watch, watch_draws

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger import chain
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.server.publication import BoardStore
from fedboard.simulations import simulate as simulation
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.directory import RunDirectory

SURE = 1 - 1e-9  # recomputed numbers agree to rounding
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""What a kill leaves does not depend on the disk, only the time that it takes does."""
STEPS = {
    "book in the population": (Population, "book"),
    "write a row": (ChainFile, "_add"),
    "empty the log": (chain, "settle"),
    "draw noise": (BookedRelease, "publish"),
    "publish a board": (BoardStore, "publish"),
    "sync a file": (os, "fsync"),
    "put a file in place": (os, "replace"),
    "record a round": (RunDirectory, "append"),
}
"""Where a run can be killed to the point: owner and name of a function."""

Trial = Callable[[], object]


@dataclass
class Run:
    """One run directory, what its processes drew, and what they published."""

    path: Path
    config: SimulationConfig
    problem: Problem
    boards: dict[str, str] = field(default_factory=dict)
    """File name -> SHA-256 when it was first seen."""

    @property
    def draws_file(self) -> Path:
        return self.path.with_suffix(".draws")

    def draws(self) -> list[list[Any]]:
        """[release, first row, number of rows, digest of the key] of every draw, by any process."""
        if not self.draws_file.exists():
            return []
        return [json.loads(line) for line in self.draws_file.read_text().splitlines()]

    def go(self, *, resume: bool) -> None:
        simulation.simulate(self.config, self.path, resume=resume, problem=self.problem, report=False)


def logged_draws(run: Run) -> None:
    """Write down every draw before its values are handed over."""
    watch_draws(BookedRelease, lambda *drawn: append_line(run.draws_file, json.dumps(drawn)))


def in_a_process(work: Trial, *, delay: float | None = None) -> tuple[bool, str]:
    """Fork, run, and kill -9 after a delay; whether it was killed, and what it said if it failed by itself."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            work()
        except BaseException as error:
            os.write(theirs, f"{type(error).__name__}: {error}".encode())
            code = 1
        os._exit(code)
    os.close(theirs)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)  # not waited for yet, so the number is still its own
    _, status = os.waitpid(child, 0)
    with os.fdopen(ours, "rb") as stream:
        said = stream.read().decode()
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return killed, said


def to_the_end(run: Run, *, resume: bool, broken: Callable[[], None] | None = None) -> Trial:
    def work() -> None:
        logged_draws(run)
        if broken is not None:
            broken()
        run.go(resume=resume)

    return work


def to_a_step(run: Run, number: int, *, resume: bool, broken: Callable[[], None] | None = None) -> Trial:
    """Run, and die at the given step."""

    def work() -> None:
        steps = iter(range(number))

        def on_step(_: str) -> None:
            if next(steps, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        logged_draws(run)
        if broken is not None:
            broken()
        watch(STEPS, on_step)
        run.go(resume=resume)

    return work


def count_steps(run: Run) -> int:
    """How many steps an undisturbed run has."""
    seen = run.path.with_suffix(".steps")

    def work() -> None:
        with seen.open("ab", buffering=0) as stream:
            watch(STEPS, lambda name: stream.write(b"."))  # type: ignore[func-returns-value]
            run.go(resume=False)

    _, said = in_a_process(work)
    assert not said, said
    return seen.stat().st_size


def account_events(run: Run, identity: str) -> list[Any]:
    account = run.config.privacy.population
    assert account is not None
    with Population.open(account, read_only=True) as population:
        return [e for m in population.members() if m.run == identity for e in m.booked.values()]


def problems(run: Run) -> Iterator[str]:
    """Everything on the disk that must not be."""
    directory = RunDirectory(run.path)
    boards = sorted(directory.boards.glob("board-*.board")) if directory.boards.exists() else []
    drawn = run.draws()
    if not directory.ledger.exists():
        if boards or drawn:
            yield f"{len(boards)} boards and {len(drawn)} draws without a ledger"
        return
    with Ledger.open(directory.ledger, read_only=True) as ledger:  # verifies the chain
        own, identity, budget = ledger.events(), ledger.id, ledger.budget
        shared = account_events(run, identity)
        for path in boards:
            yield from board_problems(path, ledger, own, shared)
            before = run.boards.setdefault(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
            if before != hashlib.sha256(path.read_bytes()).hexdigest():
                yield f"{path.name} is not what it was"
        if ledger.spent().epsilon > budget.epsilon / SURE:
            yield f"epsilon {ledger.spent().epsilon} is booked, the budget is {budget.epsilon}"
    yield from draw_problems(run, {e["name"] for e in own}, {e["name"] for e in shared})


def board_problems(path: Path, ledger: Ledger, own: list[Any], shared: list[Any]) -> Iterator[str]:
    certificate = Certificate.from_dict(dict(Board.load(path).certificate or {}))
    failed = [finding.check for finding in certificate.verify() if not finding.passed]
    if failed:
        yield f"{path.name}: the certificate fails {failed}"
    if ledger.events_at(certificate.ledger_head or "") != list(certificate.releases):
        yield f"{path.name}: its releases are not what the ledger held"
    if certificate.claim.epsilon < ledger.claim().epsilon * SURE:
        yield f"{path.name}: it claims less than the whole plan"
    for name, booked in (("run", own), ("population", shared)):
        missing = [event["name"] for event in certificate.releases if event not in booked]
        if missing:
            yield f"{path.name}: the {name}'s ledger lacks {missing}"


def draw_problems(run: Run, own: set[str], shared: set[str]) -> Iterator[str]:
    draws = run.draws()
    for name in sorted({draw[0] for draw in draws}):
        if name not in own or name not in shared:
            yield f"noise of {name} was drawn before it was booked"
        mine = [draw[1:] for draw in draws if draw[0] == name]
        if len({key for *_, key in mine}) > 1:
            yield f"noise of {name} was drawn twice, and differently"
        rows = Counter(first for first, *_ in mine)
        if run.config.privacy.noise == "secure" and max(rows.values()) > 1:
            yield f"noise of {name} was drawn twice"


def landed(run: Run) -> str:
    """Where a kill found the run, read off the disk."""
    directory = RunDirectory(run.path)
    if not directory.ledger.exists():
        return "before the ledger was there"
    with Ledger.open(directory.ledger, read_only=True) as ledger:
        own, identity = {event["name"] for event in ledger.events()}, ledger.id
    shared = {event["name"] for event in account_events(run, identity)}
    store = BoardStore(directory.boards)
    if not store.versions():
        return "before the first board"
    published = {event["name"] for event in (store.latest().certificate or {})["releases"]}
    drawn = {draw[0] for draw in run.draws()}
    if shared - own:
        return "between the two bookings"
    if own - published - drawn:
        return "booked, noise not drawn"
    if own - published:
        return "drawn, not published"
    recorded = len([line for line in directory.lines() if line["event"] == "round"])
    return "published, not recorded" if recorded < store.versions()[-1] else "between rounds"


@dataclass
class Campaign:
    """Kills of one kind of run until there are enough."""

    folder: Path
    noise: str
    chance: random.Random
    broken: Callable[[], None] | None = None
    kills: int = 0
    runs: int = 0
    lost_preparations: int = 0
    lost_rounds: int = 0
    where: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        budget = Budget(epsilon=500.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
        Population.create(self.folder / "population.ledger", budget).close()
        self.config = config_for(self.noise, self.folder / "population.ledger")
        self.problem = load_problem(self.config)
        self.steps = count_steps(self.fresh("steps"))
        timed, started = self.fresh("undisturbed"), time.monotonic()
        killed, said = in_a_process(to_the_end(timed, resume=False))
        assert (killed, said) == (False, ""), said
        self.seconds = time.monotonic() - started
        self.digest = BoardStore(timed.path / "boards").latest().digest

    def fresh(self, name: str) -> Run:
        return Run(path=self.folder / name, config=self.config, problem=self.problem)

    def go_on_until(self, kills: int) -> None:
        """A broken version is given more time, until it is caught."""
        while self.kills < kills or (self.broken and not self.violations and self.kills < 5 * kills):
            self.runs += 1
            self.one_run(self.fresh(f"run-{self.runs}"))

    def one_run(self, run: Run) -> None:
        """Kill a run up to three times, then let it finish."""
        for _ in range(self.chance.randint(1, 3)):
            killed, said = self.attempt(run)
            self.check(run)
            if not killed:
                self.ended(run, said)
                return
            self.kills += 1
            self.where[landed(run)] += 1
        resume = RunDirectory(run.path).config.exists()
        _, said = in_a_process(to_the_end(run, resume=resume, broken=self.broken))
        self.check(run)
        self.ended(run, said)

    def attempt(self, run: Run) -> tuple[bool, str]:
        resume = RunDirectory(run.path).config.exists()
        if self.chance.random() < 0.3:
            delay = self.chance.uniform(0.0, self.seconds)
            return in_a_process(to_the_end(run, resume=resume, broken=self.broken), delay=delay)
        number = self.chance.randrange(self.steps)
        return in_a_process(to_a_step(run, number, resume=resume, broken=self.broken))

    def check(self, run: Run) -> None:
        self.violations += [f"{self.noise} {run.path.name}: {problem}" for problem in problems(run)]

    def ended(self, run: Run, said: str) -> None:
        """An undisturbed end, or the one honest refusal."""
        if said:
            if self.noise == "secure" and "preparation round was paid for" in said:
                self.lost_preparations += 1
            elif said and self.broken is None:
                self.violations.append(f"{self.noise} {run.path.name}: could not go on: {said}")
            return
        boards = [Board.load(path) for path in sorted((run.path / "boards").glob("*.board"))]
        self.lost_rounds += sum(same_content(old, new) for old, new in pairwise(boards))
        if self.noise == "seeded" and boards[-1].digest != self.digest and self.broken is None:
            self.violations.append(f"{run.path.name}: ended with another board than an undisturbed run")


def same_content(old: Board, new: Board) -> bool:
    return old.arrays.keys() == new.arrays.keys() and all(
        (old.arrays[name] == new.arrays[name]).all() for name in old.arrays
    )


def config_for(noise: str, account: Path) -> SimulationConfig:
    return parse_config(
        {
            "data": {"synthetic": {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}},
            "privacy": {"epsilon": 2.0, "noise": noise, "population": str(account)},
            "settings": {"rank": 2, "rounds": 3},
            "run": {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"},
        }
    )


def campaign(
    folder: Path, noise: str, seed: int, kills: int, broken: Callable[[], None] | None = None
) -> Campaign:
    name = noise if broken is None else broken.__name__
    done = Campaign(folder / name, noise, random.Random(f"{seed} {name}"), broken)
    try:
        done.go_on_until(kills)
    except PrivacyError as error:  # a ledger that cannot even be opened any more
        done.violations.append(f"{noise}: {error}")
    return done


def summary(done: Campaign) -> dict[str, Any]:
    return {
        "kills": done.kills,
        "runs": done.runs,
        "landed": dict(done.where.most_common()),
        "rounds_lost": done.lost_rounds,
        "preparations_lost": done.lost_preparations,
        "violations": done.violations,
    }


def main() -> int:
    """Kill runs of both kinds of noise; exit code 1 for a violation or a planted fault that was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each kind of noise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as place:
        folder = Path(place)
        for noise in ("seeded", "secure"):
            found[noise] = summary(campaign(folder, noise, options.seed, options.kills))
            print(noise, json.dumps(found[noise], indent=1), flush=True)
        if options.controls:
            for broken in (booked_late, drawn_again):
                done = campaign(folder, "secure", options.seed, options.kills, broken)
                found[f"control {broken.__name__}"] = {"kills": done.kills, "caught": len(done.violations)}
                print(broken.__name__, found[f"control {broken.__name__}"], done.violations[:1], flush=True)
    violations = [text for noise in ("seeded", "secure") for text in found[noise]["violations"]]
    missed = [name for name, result in found.items() if result.get("caught") == 0]
    seconds = time.monotonic() - started
    print(f"{len(violations)} violations, {len(missed)} controls missed, {seconds:.0f} s")
    if options.json:
        record = {**found, "violations": len(violations), "controls_missed": missed, "seconds": seconds}
        options.json.write_text(json.dumps(record, indent=1))
    return 1 if violations or missed else 0


if __name__ == "__main__":
    sys.exit(main())
