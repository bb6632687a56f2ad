"""``fedboard ledger``: what was released from whose data, and what is left; accounts over many runs."""

from pathlib import Path
from typing import Any, Literal

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.text import aligned

_SHORT = 8


@click.group(cls=Commands)
def ledger() -> None:
    """Look at records of releases, keep accounts over many runs."""


@command("fedboard ledger show runs/demo", "fedboard ledger show members.ledger --for 20", group=ledger)
def show(
    target: Path = argument("RUN|FILE"),
    noise_multiplier: float | None = option("How many releases of Z still fit.", "--for", metavar="Z"),
    as_json: bool = JSON,
) -> None:
    """Print what is booked in RUN (a run directory) or FILE (the ledger of a run, a device or a population).

    Then what it promises, has spent and has room for. What is promised is the cost of the whole plan, or the budget
    where there is none; what is spent only says how much of it is used up. Epsilons do not add up, so what is left
    is told as the largest mu of further Gaussian releases together, the smallest noise multiplier of a single one,
    and the number that --for asks about. What a plan reserves is not free.

    `fedboard certificate verify` recomputes its hash chain, budget and plan.
    """
    from fedboard.client.verification.accounts import ledger_account, left_answer
    from fedboard.common.privacy.ledger.chain import peek
    from fedboard.common.privacy.ledger.chain_rows import POPULATION, kind_of

    path = target / "ledger.sqlite" if target.is_dir() else target
    kind = kind_of(peek(path))
    record, table = (_of_population if kind == POPULATION else _of_run)(path)
    left = left_answer(ledger_account(path), noise_multiplier=noise_multiplier)
    text = f"{table}\n\n{_left_text(left)}\nHead {record['head']}"
    answer({"kind": kind, **left, **record}, text, as_json=as_json)


@command(
    "fedboard ledger create members.ledger --epsilon 10 --delta 1e-6",
    "fedboard ledger create members.ledger --give-back runs/abandoned",
    group=ledger,
)
def create(
    path: Path = argument("FILE"),
    epsilon: float | None = option("What all runs together may cost."),
    delta: float | None = option("At which delta; well below 1 / number of users."),
    adjacency: Literal["add-remove", "replace"] = option("", default="add-remove"),
    lineage_epsilon: float | None = option("What each chain of boards may cost.  [default: no limit]"),
    run: str | None = option(
        "End a run of an account that is there, and free its rest.", "--give-back", metavar="RUN"
    ),
) -> None:
    """Start the account of a data population in FILE: all runs on the same users that name it add up.

    A run names it with fedboard simulate --population FILE. Its whole plan is reserved when it starts; what is
    not used goes back when it ends. With --give-back that of a run which will not be resumed goes back: RUN is its
    directory, or its id (or the beginning) as fedboard ledger show prints it. What it booked stays booked, and it
    can book nothing more.
    """
    from fedboard.common.errors import InputError
    from fedboard.common.privacy.accounting.budget import Budget
    from fedboard.common.privacy.adjacency import Adjacency
    from fedboard.common.privacy.ledger.population import Population

    if run is not None:
        _give_back(path, run)
        return
    if epsilon is None or delta is None:
        raise InputError("a new account needs --epsilon and --delta: what all runs together may cost")
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency))
    with Population.create(path, budget, lineage_epsilon=lineage_epsilon) as population:
        click.echo(
            f"Account {population.id} in {path}: epsilon {epsilon:g} at delta {delta:g} for all runs together."
        )


def _give_back(path: Path, run: str) -> None:
    from fedboard.common.errors import InputError
    from fedboard.common.privacy.ledger.population import Population

    identity = _identity(run)
    with Population.open(path) as account:
        found = [member for member in account.members() if member.run.startswith(identity)]
        if len(found) != 1:
            raise InputError(f"{path}: {len(found)} runs have an id that starts with {identity}")
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


def _of_run(path: Path) -> tuple[dict[str, Any], str]:
    """What is booked, as a record and as a table."""
    from fedboard.common.privacy.ledger.ledger import Ledger

    with Ledger.open(path, read_only=True) as opened:
        rows, head, planned = opened.rows(), opened.head, opened.plan is not None
    events = [{"seq": row.seq, "time": row.time, "name": row.name, "event": row.record} for row in rows]
    table = aligned(
        ("", "time", "release", "what it covers", "noise multiplier"),
        [
            (row.seq, row.time, row.name, row.record["covers"], f"{row.record['noise_multiplier']:.4g}")
            for row in rows
        ],
    )
    return {"releases": events, "planned": planned, "head": head}, table if rows else "Nothing is booked."


def _of_population(path: Path) -> tuple[dict[str, Any], str]:
    """The runs of an account, and what each lineage cost."""
    from fedboard.common.privacy.ledger.population import Population

    with Population.open(path, read_only=True) as population:
        members, limit = population.members(), population.lineage_epsilon
        costs = {m.lineage: population.cost(reserved=False, lineage=m.lineage) for m in members}
        identity, head = population.id, population.head
    runs = [
        {
            "run": member.run,
            "name": member.name,
            "lineage": member.lineage,
            "releases": list(member.booked),
            "closed": member.closed,
        }
        for member in members
    ]
    rows = [
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
    ]
    table = aligned(("run", "name", "lineage", "releases", "state"), rows)
    of_one = "" if limit is None else f" of {limit:.6g}"
    lines = [f"Lineage {lineage[:_SHORT]}: epsilon {cost:.6g}{of_one}" for lineage, cost in costs.items()]
    record = {"runs": runs, "lineage_epsilon": limit, "account": identity, "head": head}
    return record, "\n".join([table, "", *lines] if members else ["No run has joined."])


def _left_text(found: dict[str, Any]) -> str:
    room = found["left"]
    why = "the whole plan, made or not" if found["claimed_by"] == "plan" else "the budget: there is no plan"
    rows = [
        ("budget", _number(found["budget"]), ""),
        ("promised", _number(found["claimed"]), why),
        ("spent", _number(found["spent"]), f"{found['releases']} releases"),
    ]
    if found["reserved_releases"]:
        rows.append(
            (
                "with what is reserved",
                _number(found["committed"]),
                f"{found['reserved_releases']} more planned",
            )
        )
    lines = [
        f"{found['what'][:1].upper()}{found['what'][1:]}: {found['adjacency']}, delta {found['delta']:g}",
        "",
        aligned(("", "epsilon", ""), rows),
        "",
    ]
    if room["smallest_noise_multiplier"] is None:
        lines.append("Nothing is left for Gaussian releases.")
    else:
        lines.append(
            f"Left for further Gaussian releases: mu {room['mu']:.6g} together, such as one of noise multiplier "
            f"{room['smallest_noise_multiplier']:.6g} (epsilon {room['epsilon_alone']:.6g} by itself)."
        )
    if room["pure_epsilon"] is not None:
        lines.append(
            f"Left for questions of delta 0 if it stays at those: epsilon {room['pure_epsilon']:.6g}."
        )
    if "releases" in room:
        lines.append(
            f"Releases of noise multiplier {room['noise_multiplier']:g} that fit: {room['releases']}."
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.6g}"
