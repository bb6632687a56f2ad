"""``fedboard audit``: attack the guarantee of a run, tell how far it is, and say what came of it."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.options import REPETITIONS, WORKERS
from fedboard.cli.research.configuration import configure, flags
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError, PrivacyError

if TYPE_CHECKING:
    from fedboard.simulations.audit.audit import AuditResult
    from fedboard.simulations.audit.subject import AuditFinding, Plan
    from fedboard.simulations.config import SimulationConfig


_PHASES = {
    "noise": "noise of every release, no users",
    "file": "one user more or less in the file",
    "canaries": "canary games",
    "board": "board-only games",
}
_BEFORE = {"noise": 0.0, "file": 0.6, "canaries": 0.83, "board": 0.9}
_A_GAME = 0.06
"""Of the time of an audit with one canary game, what is gone when a phase begins, and what that game takes."""


@contextmanager
def stepping(games: int = 1) -> Iterator[Callable[[str, int, int], None]]:
    """The listener that suits stderr, for so many canary games: called with phase, steps done, steps in all."""
    began = time.monotonic()

    def told(phase: str, done: int, total: int) -> str:
        return f"{_PHASES.get(phase, phase)}{_left(time.monotonic() - began, phase, done, total, games)}"

    def say(phase: str, done: int, total: int) -> None:
        if done < total:
            count = f" ({done + 1} of {total})" if total > 1 else ""
            click.echo(f"{told(phase, done, total)}{count}", err=True)

    from fedboard.simulations.runs.progress import is_live, live_bars

    if not is_live():
        yield say
        return
    with live_bars(counted=True) as bars:
        bar = bars.add_task("loading data", total=None)

        def show(phase: str, done: int, total: int) -> None:
            bars.update(bar, description=told(phase, done, total), completed=done, total=total)

        yield show


def _left(seconds: float, phase: str, done: int, total: int, games: int) -> str:
    """An estimate of what is left, from the time so far; nothing before the first phase or step is over."""
    more = _A_GAME * (games - 1)
    gone = _BEFORE.get(phase, 0.0) + (more if phase == "board" else 0.0)
    share = (gone + done * (_A_GAME if phase == "canaries" else (phase not in _BEFORE) / total)) / (
        1.0 + more
    )
    return f", about {timedelta(seconds=round(seconds / share * (1.0 - share)))} left" if share else ""


def audit_text(result: "AuditResult") -> str:
    """Releases, board-only games, checks and the verdict."""
    noise = {line.name: f"{line.ratio:.4f}" for line in result.noise.lines}
    releases = aligned(
        ("release", "noise / booked", "mu claimed", "mu shown", "mu by counting"),
        [
            (
                line.name,
                noise.get(line.name, "-"),
                *map(_fixed, (line.mu, line.sharp, line.split)),
            )
            for line in (*result.releases, *result.game.parties, result.game.whole)
        ],
    )
    games = aligned(
        ("game", "AUC", "at most", "true positives at 1 % false", "at most"),
        [
            (
                f"{game.name} (final board only)",
                f"{game.auc:.3f}",
                f"{game.auc_at_most:.3f}",
                f"{game.true_positives:.3f}",
                f"{game.true_positives_at_most:.3f}",
            )
            for game in result.board
        ],
    )
    return "\n\n".join((releases, games, checks_text(result.findings), _verdict(result)))


def _fixed(number: float) -> str:
    return f"{number:.4f}"


def checks_text(findings: Sequence["AuditFinding"]) -> str:
    """A line for each check, those that failed marked."""
    rows = [("ok" if f.passed else "FAILED", str(f.part), f.check, f.detail) for f in findings]
    return aligned(("", "", "", ""), rows)


def _verdict(result: "AuditResult") -> str:
    from fedboard.simulations.audit.statistics import CONFIDENCE

    game = result.game
    told = (
        f"Claimed: epsilon {game.claimed:.4g} at delta {game.delta:g} (proof). Audited: at least "
        f"{game.epsilon_lower_bound:.4g} ({CONFIDENCE:.0%}, {game.n_canaries:,} canaries)."
    )
    if result.violated:
        return (
            f"{told}\nThe claim does not hold, or this is one of the {1 - CONFIDENCE:.0%} of games in which "
            "chance goes beyond it: see the checks that failed, and decide with --repeat 60."
        )
    return f"{told}\nNothing exceeds what is claimed. An audit can refute a guarantee, not prove one."


_SYNTHETIC = {"n_users": 4_000, "n_items": 3_000, "mean_ratings_per_user": 40}
"""Made for the purpose: few users, so that it is quick, many items, so that canaries do not meet."""


@command(
    "fedboard audit --epsilon 1",
    "fedboard audit --data ml-1m/ --epsilon 5 --workers 2 --out runs/audit",
    "fedboard audit --epsilon 20 --repeat 60",
    "fedboard audit --protocol distributed-dp --algorithm residual",
    also=flags(
        *("data", "columns", "rating_range", "algorithm", "epsilon", "feedback", "rounds", "assignments"),
        *("noise", "protocol", "seed"),
    ),
)
def audit(
    canaries: int | None = option(
        "Planted users.  [default: by epsilon]", type=click.IntRange(10, 1_000_000)
    ),
    repeat: int = option("Games with a seed each.", type=REPETITIONS, default=1),
    workers: int = option("Worker processes.", type=WORKERS, default=2),
    out: Path | None = option("Directory for audit.json."),
    as_json: bool = JSON,
    assignments: tuple[str, ...] = (),
    noise: str | None = None,
    **flags: Any,
) -> int:
    """Attack the privacy guarantee of real runs.

    Tests what one user of the file changes, the noise of every release, what an adversary who sees everything
    learns about planted users (a lower bound on epsilon, to hold beside the claim), and what the final board alone
    gives away. The exit code is 1 if anything exceeds what is claimed.

    Nothing that is printed is private: audits are for test data and simulations.
    """
    from fedboard.simulations.audit.subject import Plan

    base = {} if flags.get("data") is not None else {"data": {"source": "synthetic", "synthetic": _SYNTHETIC}}
    config = configure(base, {**flags, "workers": workers}, assignments)
    plan = Plan(seed=config.seed, canaries=canaries, repeat=repeat)
    about = {
        "algorithm": config.algorithm,
        "protocol": config.run.protocol,
        "feedback": str(config.feedback),
        "data": config.data.source,
        "adjacency": str(config.privacy.adjacency),
        "seed": config.seed,
        "noise_source": noise or "seeded",
    }
    with stepping(plan.repeat) as on_step:
        record, text = _audit(config, plan, about, on_step, out)
    answer(record, text, as_json=as_json)
    return 1 if record["violated"] else 0


def _audit(
    config: "SimulationConfig", plan: "Plan", about: dict[str, Any], on_step: Any, out: Path | None
) -> tuple[dict[str, Any], str]:
    from fedboard.simulations.audit.audit import audit as run_audit
    from fedboard.simulations.audit.entrance import Entrance
    from fedboard.simulations.audit.record import audit_record, stopped_record
    from fedboard.simulations.audit.subject import broken_check, subject_of
    from fedboard.simulations.engine import WorkerPool
    from fedboard.simulations.problem import load_data
    from fedboard.simulations.runs.calibrated import label_of, loading_of
    from fedboard.simulations.runs.directory import RUNS, fresh

    place = out or fresh(RUNS / f"audit-{label_of(config.algorithm)}-eps{config.privacy.epsilon:g}")
    loading, compiled = loading_of(config.algorithm), config.run.kernels != "numpy"
    with (
        Entrance(config, load_data(config.data)) as entrance,
        WorkerPool(config.run.workers, prepare=loading, compiled=compiled) as pool,
    ):
        subject = subject_of(config, entrance.problem(entrance.honest), noise=about["noise_source"])
        about |= {"users": int(entrance.honest.ids.size), "items": subject.catalogue.n_items}
        try:
            result = run_audit(subject, entrance, plan, pool=pool, on_step=on_step)
            record, text = audit_record(result, about), audit_text(result)
            text += f"\n\nNumbers: {place / 'audit.json'}"
        except (InputError, PrivacyError) as error:
            if subject.sessions is not None and not isinstance(error, PrivacyError):
                raise  # what the protocol cannot carry
            finding = broken_check(error)
            record, text = stopped_record(finding, subject.budget, about), checks_text([finding])
    place.mkdir(parents=True, exist_ok=True)
    (place / "audit.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record, text
