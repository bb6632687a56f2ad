"""Kill -9 a run again and again, with both ledgers on, and hold what is left against what was released.

usage: python benchmarks/privacy/crashes.py [--kills 20] [--seed 0] [--controls] [--json FILE]

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
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads must not be forked
sys.path.insert(0, str(Path(__file__).parents[1]))

from fedboard.common.board import Board
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore
from fedboard.simulations import simulate as simulation
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.runs.directory import RunDirectory
from privacy.broken_servers import booked_late, drawn_again
from privacy.crash_checks import landed, problems
from privacy.crash_runs import IN_MEMORY, Run, count_steps, in_a_process, to_a_step, to_the_end


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


@contextmanager
def without_reports() -> Iterator[None]:
    """Pictures take longer than everything else in a run this small."""
    original = simulation.write_report
    simulation.write_report = lambda run: run / "report.html"
    try:
        yield
    finally:
        simulation.write_report = original


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
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as place, without_reports():
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
