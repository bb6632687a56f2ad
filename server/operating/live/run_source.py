"""The state of a run, as its live page shows it, from the run's files alone."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.calibration import round_of_release
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population_total import PopulationTotal
from fedboard.common.privacy.releases.noise import Protection, protection_of
from fedboard.common.rounds_made import RoundsMade
from fedboard.common.tasks.rebuilding import rebuild_any
from fedboard.common.wire.live.feed import State
from fedboard.server.operating.live.account import Account, Booked, Rounds, next_round
from fedboard.server.operating.live.answers import answers_of, expected_nodes
from fedboard.server.operating.live.run_files import RunFiles
from fedboard.server.operating.live.seal import Sealing
from fedboard.server.operating.log_lines import lines_of, number_of
from fedboard.server.operating.run_fares import LOST, PLANNED
from fedboard.server.publication import BoardStore

if TYPE_CHECKING:
    from fedboard.common.boards.board_signature import PinnedKey

SIMULATION_ONLY = "not private: simulation only"
"""What stands above every number that is neither booked nor published."""
Lines = Sequence[Mapping[str, Any]]
Extra = Callable[[Lines], Mapping[str, Any] | None]
"""What a simulation adds from its log; told under ``SIMULATION_ONLY``."""
_WORDS = {
    "waiting": "Nothing is released yet: data are being loaded, or devices awaited.",
    "running": "The run is under way.",
    "judging": "All rounds are made; what they are worth is being judged.",
    "stopped": "Nobody is working on this run: it was stopped, interrupted or killed, and can go on.",
    "finished": "The run is finished.",
    "unreadable": "The run's files cannot be read.",
}
_MOST_ROUNDS = 400
"""Of a list; a run of more tells its last ones."""


class Fleet(Protocol):
    """Who is there to take part in the run."""

    def signature(self) -> object:
        """Cheap; another one means that there may be news."""
        ...

    def told(self) -> Mapping[str, Any]:
        """JSON-able."""
        ...


@dataclass(slots=True, kw_only=True)
class RunSource:
    """What is watched of a run.

    Guarantee: what it tells is booked, published, or a public setting; but for ``answers``, which it has only
    ``for_operator``, and what ``extra`` adds, which is told as ``simulation``.
    """

    files: RunFiles
    for_operator: bool
    """Whether only this machine reads it."""
    extra: Extra | None = None
    key: "PinnedKey | None" = None
    fleet: "Fleet | None" = None
    """How the fleet stands, told to the operator alone."""
    _account: Account = field(default_factory=Account)
    _sealing: Sealing = field(init=False)
    _rounds: Rounds | None = None
    _booked: Booked | None = None
    _ledger_seen: object = None

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._sealing = Sealing(self.files, self.key)

    def signature(self) -> object:
        """Of the run's files."""
        return self.files.signature(), None if self.fleet is None else self.fleet.signature()

    def is_due(self) -> bool:
        """Whether the newest board is still to be checked."""
        return self._sealing.is_due

    def read(self) -> State:
        """The state, from the files as they are."""
        try:
            return self._read()
        except (FedboardError, OSError) as error:
            told = f" {error}" if self.for_operator else ""
            return {**self._head("unreadable"), "told": f"{_WORDS['unreadable']}{told}"}

    def _read(self) -> State:
        lines = [line for line in lines_of(self.files.log) if "round" in line or line.get("event") == "final"]
        done = [line for line in lines if "round" in line]
        self._sealing.look()
        booked = self._read_ledger()
        rounds = self._all_rounds(lines)
        state = self._state(rounds, booked, lines)
        extra = None if self.extra is None else self.extra(lines)
        return {
            **self._head(state),
            "noise": _noise(booked),
            "budget": None if booked is None else self._budget(booked, rounds, done),
            "populations": self._populations(),
            "rounds": self._told_rounds(rounds, booked, done),
            "releases": [] if booked is None else self._account.releases(booked, rounds)[-_MOST_ROUNDS:],
            "board": self._sealing.told(),
            "answers": self._answers(done),
            "fleet": self._fleet(),
            "simulation": None if extra is None else {"label": SIMULATION_ONLY, **extra},
        }

    def _read_ledger(self) -> Booked | None:
        """What is booked, read again where it changed; the newest board is held against it, when that is due."""
        seen = self.files.ledger_signature()
        if seen == self._ledger_seen and not self._sealing.is_due:
            return self._booked
        with ExitStack() as stack:
            ledger = None
            if self.files.ledger.exists():
                ledger = stack.enter_context(Ledger.open(self.files.ledger, read_only=True))
            if self._sealing.is_due:
                self._sealing.check(ledger)
            self._booked = None if ledger is None else Booked.of(ledger)
        self._ledger_seen = seen
        return self._booked

    def _head(self, state: str) -> dict[str, Any]:
        name = self.files.folder.resolve().name
        return {"kind": "run", "name": name, "state": state, "told": _WORDS[state]}

    def _all_rounds(self, lines: Lines) -> Rounds:
        """Names of the releases of every round, once a board says by which task they are made."""
        if self._rounds is None and self._sealing.held is not None:
            try:
                plan = rebuild_any(self._sealing.held.board).plan()
                self._rounds = [[request.name for request in requests] for requests in plan]
            except (
                FedboardError
            ):  # an algorithm that is not installed here: what was made is known all the same
                self._rounds = []
        return self._rounds or [list(line.get("releases", ())) for line in lines if "round" in line]

    def _state(self, rounds: Rounds, booked: Booked | None, lines: Lines) -> str:
        if self._sealing.held is None and (booked is None or not booked.events):
            return "waiting" if self.files.writer or not lines else "stopped"
        over = self._sealing.held is not None and self._sealing.held.board.version >= self._planned(
            rounds, lines
        )
        if any(line.get("event") == "final" for line in lines) or (over and not self.files.is_simulation):
            return "finished"
        if not self.files.writer:
            return "stopped"
        return "judging" if over else "running"

    def _planned(self, rounds: Rounds, lines: Lines) -> int:
        held = self._sealing.held
        if held is not None and held.certificate.rounds is not None:
            return held.certificate.rounds.planned
        return max([len(rounds), *(int(number_of(line.get(PLANNED))) for line in lines)])

    def _budget(self, booked: Booked, rounds: Rounds, done: Lines) -> dict[str, Any]:
        logged = number_of(done[-1].get("epsilon_spent")) if done else 0.0
        return self._account.budget(booked, rounds, logged)

    def _populations(self) -> list[dict[str, Any]]:
        """As the newest board's certificate states them: there the account's numbers are published."""
        held = self._sealing.held
        return (
            []
            if held is None or held.certificate.population is None
            else _limits(held.certificate.population)
        )

    def _told_rounds(self, rounds: Rounds, booked: Booked | None, done: Lines) -> dict[str, Any]:
        held, published = self._sealing.held, self._published()
        counted = None if held is None else held.certificate.rounds
        lost = counted is None or counted.lost > 0
        coming = () if booked is None else next_round(booked, rounds)
        names = set() if booked is None else booked.names
        by_number = {int(number_of(line.get("round"))): line for line in done}
        behind = 0 if held is None else held.board.version
        found = []
        for number, releases in enumerate(rounds):
            line = by_number.get(number)
            found.append(
                {
                    "number": number,
                    "name": _name_of(releases) or f"round {number}",
                    "state": _state_of(line, releases, names, coming, published=number < behind, lost=lost),
                    "epsilon": None if line is None else number_of(line.get("epsilon_spent")),
                    "releases": list(releases),
                }
            )
        return {
            "planned": self._planned(rounds, done),
            **_counts(counted, found),
            "list": found[-_MOST_ROUNDS:],
            "pace_seconds": _pace(published),
            "last_published": published[-1] if published else None,
        }

    def _published(self) -> list[float]:
        """When each board was written, seconds since 1970, in their order."""
        store = BoardStore(self.files.boards)
        return [store.path(version).stat().st_mtime for version in store.versions()]

    def _answers(self, done: Lines) -> dict[str, Any] | None:
        if not self.for_operator or self.files.is_simulation:
            return None
        return answers_of(done, expected=expected_nodes(self.files.folder))

    def _fleet(self) -> Mapping[str, Any] | None:
        return None if self.fleet is None or not self.for_operator else self.fleet.told()


def _limits(total: PopulationTotal) -> list[dict[str, Any]]:
    of_all = {"name": f"all runs on these users (account {total.population[:8]})", "delta": total.delta}
    found = [{**of_all, "epsilon": total.budget, "spent": total.spent, "committed": total.committed}]
    if total.lineage_budget is not None:
        name = f"this lineage of boards ({total.lineage[:8]})"
        limits = {
            "epsilon": total.lineage_budget,
            "spent": total.lineage_spent,
            "committed": total.lineage_spent,
        }
        found.append({"name": name, "delta": total.delta, **limits})
    return found


def _state_of(
    line: Mapping[str, Any] | None,
    releases: Sequence[str],
    booked: set[str],
    coming: Sequence[str],
    *,
    published: bool,
    lost: bool,
) -> str:
    if line is not None:
        return "lost" if lost and line.get(LOST, not line.get("releases", True)) else "made"
    if published:  # its line follows when it is judged
        return "made"
    if releases and booked.issuperset(releases):
        return "booked"
    return "next" if releases and list(releases) == list(coming) else "to come"


def _counts(counted: RoundsMade | None, found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """As the newest board's certificate counts them; from the list where nobody counted."""
    if counted is not None:
        return {"made": counted.made, "lost": counted.lost}
    states = [one["state"] for one in found]
    return {"made": states.count("made"), "lost": states.count("lost")}


def _name_of(releases: Sequence[str]) -> str:
    return round_of_release(releases[0]).replace("-", " ") if releases else ""


def _noise(booked: Booked | None) -> dict[str, str]:
    found = Protection.NO_DATA if booked is None else protection_of(booked.events)
    return {"protection": found.value, "told": found.verdict}


def _pace(published: Sequence[float]) -> float | None:
    """Seconds between two boards, usually; what a run stood still does not count."""
    gaps = [later - earlier for earlier, later in pairwise(published)][-8:]
    return statistics.median(gaps) if gaps else None


__all__ = ["SIMULATION_ONLY", "Extra", "RunSource"]
