"""``fedboard ledger``: what was released from whose data, whether the record is whole, and what is left."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.style.colours import bad
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.style.groups import Commands
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.guarantee.ledger_checks import Verdict
    from fedboard.common.privacy.accounting.budget import Budget

_TARGET = click.argument("target", metavar="RUN|FILE", type=click.Path(path_type=Path))
_SHORT = 8


@click.group(cls=Commands)
def ledger() -> None:
    """Look at and check the records of releases, and keep accounts over many runs."""


@ledger.command(epilog="Example: fedboard ledger show runs/demo")
@_TARGET
@JSON
def show(target: Path, as_json: bool) -> None:
    """Print what is booked in RUN (a run directory) or FILE (the ledger of a run, a device or a population)."""
    from fedboard.client.guarantee.ledger_checks import find_subject
    from fedboard.common.privacy.ledger.chain_rows import POPULATION

    subject = find_subject(target)
    if as_json:
        told = _population_record if subject.kind == POPULATION else _releases_record
        document({"ledger": str(subject.ledger), "kind": subject.kind, **told(subject.ledger)})
    elif subject.kind == POPULATION:
        click.echo(_population_text(subject.ledger))
    else:
        click.echo(_releases_text(subject.ledger))


@ledger.command(
    epilog="Examples: fedboard ledger verify runs/demo; fedboard ledger verify population.ledger --head HASH"
)
@_TARGET
@click.option(
    "--head", "heads", multiple=True, metavar="HASH", help="A head that was published; must be in the chain."
)
@click.option(
    "--simulation", is_flag=True, help="Accept noise that its seed reproduces: 0 where everything else holds."
)
@JSON
def verify(target: Path, heads: tuple[str, ...], simulation: bool, as_json: bool) -> int:
    """Recompute the hash chain, the budget and the plan of RUN (a run directory) or FILE (any ledger).

    Finds rows that were changed, removed, reordered or put in, an edited header (budget, plan), and releases that
    are not sound or not planned. In a run directory every published board is held against the ledger, and the
    run against its population's account.

    The exit code is 0 only if all of it holds and all noise that was booked is private. It is 1 if anything fails,
    and 5 if all holds but noise follows from a seed, which is no guarantee to anybody.

    What it cannot find: rows cut off at the end, unless a published head is at hand (a board's certificate names
    one, --head gives one); an owner who rewrites the whole file and every head that was ever published; anything
    that was published without being booked.
    """
    from fedboard.client.guarantee.ledger_checks import LIMITS, find_subject, verify_ledger
    from fedboard.common.privacy.releases.noise import Protection

    verdict = verify_ledger(find_subject(target), heads)
    if as_json:
        failed = [{"check": finding.check, "detail": finding.detail} for finding in verdict.failed]
        record = {
            "ledger": str(verdict.subject.ledger),
            "kind": verdict.subject.kind,
            "holds": not failed,
            "private": not failed and verdict.protection is Protection.PRIVATE,
            "noise": verdict.protection.value,
            "checks": len(verdict.findings),
            "failed": failed,
            **verdict.facts,
            "limits": list(LIMITS),
        }
        document(record)
    else:
        click.echo(_verdict_text(verdict))
    if verdict.failed:
        return ExitCode.FAILED
    revealed = verdict.protection is Protection.SIMULATION
    return ExitCode.NOT_PRIVATE if revealed and not simulation else ExitCode.DONE


@ledger.command(
    "create-population",
    epilog="Example: fedboard ledger create-population members.ledger --epsilon 10 --delta 1e-6",
)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, required=True, help="What all runs together may cost.")
@click.option("--delta", type=float, required=True, help="At which delta; well below 1 / number of users.")
@click.option(
    "--adjacency", type=click.Choice(["add-remove", "replace"]), default="add-remove", show_default=True
)
@click.option(
    "--lineage-epsilon", type=float, help="What each chain of boards may cost.  [default: no limit]"
)
def create_population(
    path: Path, epsilon: float, delta: float, adjacency: str, lineage_epsilon: float | None
) -> None:
    """Start the account of a data population in FILE: all runs on the same users that name it add up.

    A run names it with fedboard simulate --population FILE. Its whole plan is reserved when it starts; what is
    not used goes back when it ends.
    """
    from fedboard.common.privacy.accounting.budget import Budget
    from fedboard.common.privacy.adjacency import Adjacency
    from fedboard.common.privacy.ledger.population import Population

    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency))
    with Population.create(path, budget, lineage_epsilon=lineage_epsilon) as population:
        click.echo(
            f"Account {population.id} in {path}: epsilon {epsilon:g} at delta {delta:g} for all runs together."
        )


@ledger.command("give-back", epilog="Example: fedboard ledger give-back members.ledger runs/abandoned")
@click.argument("population", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("run", metavar="RUN")
def give_back(population: Path, run: str) -> None:
    """End a run that will not be resumed: what FILE keeps reserved for RUN is free again.

    RUN is its directory, or its id (or the beginning) as fedboard ledger show prints it. What it booked stays
    booked, and it can book nothing more.
    """
    from fedboard.common.errors import InputError
    from fedboard.common.privacy.ledger.population import Population

    identity = _identity(run)
    with Population.open(population) as account:
        found = [member for member in account.members() if member.run.startswith(identity)]
        if len(found) != 1:
            raise InputError(f"{population}: {len(found)} runs have an id that starts with {identity}")
        account.give_back(found[0].run)
        click.echo(
            f"Run {found[0].name} ({found[0].run}) is closed; epsilon {account.cost(reserved=True):.6g} of "
            f"{account.budget.epsilon:.6g} is booked or reserved."
        )


def _identity(run: str) -> str:
    from fedboard.common.privacy.ledger.ledger import Ledger

    own = Path(run) / "ledger.sqlite"
    if not own.exists():
        return run
    with Ledger.open(own, read_only=True) as opened:
        return opened.id


def _verdict_text(verdict: "Verdict") -> str:
    from fedboard.client.guarantee.ledger_checks import LIMITS

    lines = [f"{bad('FAILED')}  {finding.check}: {finding.detail}" for finding in verdict.failed]
    n_checks = len(verdict.findings)
    if lines:
        lines.append(
            f"{len(verdict.failed)} of {n_checks} checks failed: do not rely on {verdict.subject.ledger}."
        )
    else:
        lines += [finding.detail for finding in verdict.findings if finding.check in ("chain", "budget")]
        lines.append(f"All {n_checks} checks passed: {verdict.subject.ledger}.")
        lines.append(f"{verdict.protection.verdict}.")
    if verdict.facts.get("population") and verdict.subject.population is None:
        lines.append("It books in a population whose account is not here: the two were not compared.")
    return "\n".join([*lines, "", "What this cannot show:", *(f"- {limit}" for limit in LIMITS)])


def _releases_record(path: Path) -> dict[str, Any]:
    from fedboard.common.privacy.ledger.ledger import Ledger

    with Ledger.open(path, read_only=True) as opened:
        rows = [
            {"seq": row.seq, "time": row.time, "name": row.name, "event": row.record} for row in opened.rows()
        ]
        return {
            "releases": rows,
            "spent": opened.spent().epsilon,
            "budget": _budget_record(opened.budget),
            "claimed": opened.claim().epsilon,
            "planned": opened.plan is not None,
            "head": opened.head,
        }


def _population_record(path: Path) -> dict[str, Any]:
    from fedboard.common.privacy.ledger.population import Population

    with Population.open(path, read_only=True) as population:
        runs = [
            {
                "run": member.run,
                "name": member.name,
                "lineage": member.lineage,
                "releases": list(member.booked),
                "closed": member.closed,
            }
            for member in population.members()
        ]
        return {
            "runs": runs,
            "spent": population.cost(reserved=False),
            "committed": population.cost(reserved=True),
            "budget": _budget_record(population.budget),
            "lineage_epsilon": population.lineage_epsilon,
            "account": population.id,
            "head": population.head,
        }


def _budget_record(budget: "Budget") -> dict[str, Any]:
    return {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": str(budget.adjacency)}


def _releases_text(path: Path) -> str:
    from fedboard.common.privacy.ledger.ledger import Ledger

    with Ledger.open(path, read_only=True) as opened:
        rows = [(row, row.record) for row in opened.rows()]
        spent, budget, head = opened.spent(), opened.budget, opened.head
        claimed, planned = opened.claim(), opened.plan is not None
    table = aligned(
        ("", "time", "release", "what it covers", "noise multiplier"),
        [
            (str(row.seq), row.time, row.name, str(event["covers"]), f"{event['noise_multiplier']:.4g}")
            for row, event in rows
        ],
        right=(0, 4),
    )
    total = (
        f"Spent epsilon {spent.epsilon:.6g} of {budget.epsilon:.6g} at delta {budget.delta:g}, adjacency "
        f"{budget.adjacency}.\n{_claimed_text(claimed.epsilon, planned=planned)}\nHead {head}"
    )
    return f"{table}\n\n{total}" if rows else f"Nothing is booked.\n\n{total}"


def _claimed_text(epsilon: float, *, planned: bool) -> str:
    """What is promised, and why it is not what was spent."""
    why = (
        "the cost of the whole plan, made or not"
        if planned
        else "the budget, because no plan fixed the releases beforehand"
    )
    return f"Promised: epsilon {epsilon:.6g}, {why}. What was spent when one stops promises nothing."


def _population_text(path: Path) -> str:
    from fedboard.common.privacy.ledger.population import Population

    with Population.open(path, read_only=True) as population:
        members, budget, limit = population.members(), population.budget, population.lineage_epsilon
        spent, committed = population.cost(reserved=False), population.cost(reserved=True)
        costs = {m.lineage: population.cost(reserved=False, lineage=m.lineage) for m in members}
        identity, head = population.id, population.head
    table = aligned(
        ("run", "name", "lineage", "releases", "state"),
        [
            (
                member.run[:_SHORT],
                member.name,
                member.lineage[:_SHORT],
                str(len(member.booked)),
                "ended"
                if member.closed
                else "reserved"
                if member.plan is not None or member.reserve is not None
                else "open",
            )
            for member in members
        ],
        right=(3,),
    )
    lines = [
        f"Lineage {lineage[:_SHORT]}: epsilon {cost:.6g}" + ("" if limit is None else f" of {limit:.6g}")
        for lineage, cost in costs.items()
    ]
    lines += [
        f"All runs: epsilon {spent:.6g} spent, {committed:.6g} with what is reserved, of {budget.epsilon:.6g} at "
        f"delta {budget.delta:g}, adjacency {budget.adjacency}.",
        f"Promised: epsilon {budget.epsilon:.6g} to all runs together"
        + ("" if limit is None else f", {limit:.6g} to each lineage")
        + ", whatever a run is started or stopped by.",
        f"Account {identity}, head {head}",
    ]
    return "\n".join(([table, ""] if members else ["No run has joined.", ""]) + lines)
