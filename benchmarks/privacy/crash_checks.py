"""Whether what a kill left behind was booked before it was released."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore
from fedboard.simulations.runs.directory import RunDirectory
from privacy.crash_runs import SURE, Run


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
