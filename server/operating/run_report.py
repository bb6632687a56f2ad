"""The report of a run, from its files alone: whoever writes them, and whether it is under way or over.

Templates become text in one environment: everything is escaped, nothing is loaded from outside.
"""

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.members import PopulationTotal
from fedboard.common.privacy.shown import shown_number
from fedboard.common.reports import wording
from fedboard.common.reports.filling import base_style, source_hash
from fedboard.common.reports.statement import Statement, read_statement, release_lines
from fedboard.common.reports.wording import JsonObject, duration
from fedboard.server.operating.budget import (
    Booked,
    Rounds,
    Spending,
    epsilon_chart,
    next_round,
    release_table,
    round_table,
)
from fedboard.server.operating.run_files import LOST, PLANNED, RunFiles, lines_of, number_of
from fedboard.server.operating.seal import Sealing
from fedboard.server.publication import BoardStore

if TYPE_CHECKING:
    from jinja2 import Environment


_PACKAGE: Final = "fedboard.server.operating"


def _read(name: str) -> str:
    """A file of this package, or of another as ``package:file``."""
    package, _, file = name.rpartition(":")
    return resources.files(package or _PACKAGE).joinpath(file).read_text(encoding="utf-8")


_STYLE: Final = base_style() + _read("style.css")
_SCRIPT: Final = _read("live.js")
_DIGEST: Final = hashlib.sha256((_STYLE + _SCRIPT).encode()).hexdigest()
LIVE_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"script-src '{source_hash(_SCRIPT)}'",
        f"style-src '{source_hash(_STYLE)}'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""By which a browser runs the page of a run that goes on."""


def render(template: str, *, live: bool, **values: object) -> str:
    """Fill a template. Values are escaped; only drawn SVG is taken as markup.

    Args:
        template: a file of this package, or ``package:file``.
        live: whether it is served and refreshed; else it is a file that runs no script.
        values: for its slots; what is missing is left out.
    """
    return _environment().get_template(template).render(live=live, **values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_read), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    for name in ("number", "percent", "duration", "setting", "capital", "byte_count", "spent", "left_over"):
        environment.filters[name] = getattr(wording, name)
    environment.filters["upward"] = shown_number
    environment.globals |= {
        "style": Markup(_STYLE),
        "script": Markup(_SCRIPT),
        "digest": _DIGEST,
        "software": f"fedboard {version('fedboard')}",
    }
    return environment


Lines = Sequence[Mapping[str, Any]]
Sections = Callable[[RunFiles, Lines, Statement | None], Mapping[str, Any]]
"""What a simulation adds to the page: values of its own parts of the template, under their label."""
WORDS = {
    "waiting": "Nothing is released yet: data are being loaded, or devices awaited.",
    "running": "The run is under way.",
    "judging": "All rounds are made; what they are worth is being judged.",
    "stopped": "Nobody is working on this run: it was stopped, interrupted or killed, and can go on.",
    "finished": "The run is finished.",
    "unreadable": "The run's files cannot be read; fedboard certificate verify says why.",
}
_MOST_ROUNDS = 400
"""Of a list; a run of more tells its last ones."""


@dataclass(slots=True, kw_only=True)
class RunReport:
    """Reads a run and writes its page, again whenever something has changed.

    Guarantee: what it tells is booked, published, or a public setting; but for what ``sections`` adds, which stands
    under its label.
    """

    files: RunFiles
    sections: Sections | None = None
    """Of a simulation."""
    _sealing: Sealing = field(init=False)
    _rounds: Rounds | None = None
    _booked: Booked | None = None
    _ledger_seen: object = None

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._sealing = Sealing(self.files)

    def signature(self) -> object:
        """Another one means that there may be news."""
        return self.files.signature()

    def page(self) -> str:
        """The page as it is now. Never raises: that files cannot be read is told, too."""
        try:
            return render("report.html", live=True, **self._values(live=True))
        except (FedboardError, OSError):
            return render("report.html", live=True, **self._head("unreadable"))

    def finished_page(self, certificate: JsonObject) -> str:
        """The page to be kept: the certificate is verified, and what takes long is computed.

        Raises:
            InputError: a file that cannot be read as what it should be.
        """
        return render("report.html", live=False, **self._values(live=False, certificate=certificate))

    def _values(self, *, live: bool, certificate: JsonObject | None = None) -> dict[str, Any]:
        lines = [line for line in lines_of(self.files.log) if "round" in line or line.get("event") == "final"]
        done = _once(lines)
        booked = self._read_ledger()
        rounds = self._all_rounds(lines)
        seal = self._sealing.seal
        stated = certificate or (None if seal is None else dict(seal.board.certificate or {}))
        statement = None if stated is None else read_statement(stated, verified=not live)
        extra = {} if self.sections is None else dict(self.sections(self.files, lines, statement))
        return {
            **self._head(self._state(rounds, booked, lines)),
            "statement": statement,
            "seeded": statement is not None
            and not statement.certificate.private
            and (bool(statement.releases) or not live),
            "broken": [] if seal is None else seal.broken,
            "spendings": self._spendings(booked, done),
            "rounds": self._told_rounds(rounds, booked, done, extra.pop("columns", ())),
            **self._releases(booked, rounds, statement, thorough=not live),
            "seal": seal,
            **extra,
        }

    def _read_ledger(self) -> Booked | None:
        """What is booked, read again where it or the newest board changed, which is then held against it."""
        newest = self._sealing.newest()
        seen = (newest, self.files.ledger_signature())
        if seen == self._ledger_seen:
            return self._booked
        with ExitStack() as stack:
            ledger = None
            if self.files.ledger.exists():
                ledger = stack.enter_context(Ledger.open(self.files.ledger, read_only=True))
            self._sealing.look(newest, ledger)
            self._booked = None if ledger is None else Booked.of(ledger)
        self._ledger_seen = seen
        return self._booked

    def _head(self, state: str) -> dict[str, Any]:
        return {
            "name": self.files.folder.resolve().name,
            "state": state,
            "told": WORDS[state],
            "simulated": self.sections is not None,
        }

    def _all_rounds(self, lines: Lines) -> Rounds:
        """Names of the releases of every round, once a board says by which task they are made."""
        if self._rounds is None and self._sealing.seal is not None:
            try:
                plan = rebuild_any(self._sealing.seal.board).plan()
                self._rounds = [[request.name for request in requests] for requests in plan]
            except (
                FedboardError
            ):  # an algorithm that is not installed here: what was made is known all the same
                self._rounds = []
        return self._rounds or [list(line.get("releases", ())) for line in _once(lines)]

    def _state(self, rounds: Rounds, booked: Booked | None, lines: Lines) -> str:
        held = self._sealing.seal
        if any(line.get("event") == "final" for line in lines):
            return "finished"
        if held is None and (booked is None or not booked.events):
            return "waiting" if self.files.writer or not lines else "stopped"
        over = held is not None and held.board.version >= self._planned(rounds, lines)
        if over and not self.files.is_simulation:
            return "finished"
        if not self.files.writer:
            return "stopped"
        return "judging" if over else "running"

    def _planned(self, rounds: Rounds, lines: Lines) -> int:
        held = self._sealing.seal
        if held is not None and held.certificate.rounds is not None:
            return held.certificate.rounds.planned
        return max([len(rounds), *(int(number_of(line.get(PLANNED))) for line in lines)])

    def _spendings(self, booked: Booked | None, done: Lines) -> list[Spending]:
        """Of the run by its ledger; of the accounts of its users as the newest board's certificate states them."""
        logged = number_of(done[-1].get("epsilon_spent")) if done else 0.0
        found = list[Spending]()
        if booked is not None:
            spent = logged if booked.spent is None else booked.spent
            found.append(Spending(name="this run", epsilon=booked.epsilon, delta=booked.delta, spent=spent))
        held = self._sealing.seal
        return found if held is None else [*found, *_limits(held.certificate.population)]

    def _told_rounds(
        self,
        rounds: Rounds,
        booked: Booked | None,
        done: Lines,
        columns: Sequence[tuple[str, Mapping[int, str]]],
    ) -> dict[str, Any]:
        held, published = self._sealing.seal, self._published()
        counted = None if held is None else held.certificate.rounds
        may_be_lost = counted is None or counted.lost > 0
        coming = () if booked is None else next_round(booked, rounds)
        names = set() if booked is None else booked.names
        by_number = {int(number_of(line.get("round"))): line for line in done}
        behind = 0 if held is None else held.board.version
        states = [
            _state_of(
                by_number.get(k), releases, names, coming, published=k < behind, may_be_lost=may_be_lost
            )
            for k, releases in enumerate(rounds)
        ]
        made, lost = states.count("made"), states.count("lost")
        if counted is not None:
            made, lost = counted.made, counted.lost
        planned = self._planned(rounds, done)
        return {
            "planned": planned,
            "made": made,
            "lost": lost,
            "table": round_table(
                list(enumerate(zip(rounds, states, strict=True)))[-_MOST_ROUNDS:],
                by_number,
                columns,
                seconds=self.sections is not None and bool(done),
            ),
            "rest": _rest(planned - made - lost, published) if self.files.writer else "",
        }

    def _published(self) -> list[float]:
        """When each board was written, seconds since 1970, in their order."""
        store = BoardStore(self.files.boards)
        return [store.path(version).stat().st_mtime for version in store.versions()]

    def _releases(
        self, booked: Booked | None, rounds: Rounds, statement: Statement | None, *, thorough: bool
    ) -> dict[str, Any]:
        if booked is None and statement is None:
            return {}
        if booked is None:
            assert statement is not None
            lines, claim, names = statement.releases, statement.certificate.claim.epsilon, None
        else:
            events = booked.in_order(rounds)
            lines = release_lines(events, booked.delta, planned=True, sampled=thorough)
            claim, names = booked.epsilon, booked.names
        return {
            "releases": release_table(lines, names, most=_MOST_ROUNDS) if lines else None,
            "booked": len(lines if names is None else names),
            "all_releases": len(lines),
            "budget_charts": epsilon_chart(lines, claim),
        }


def _once(lines: Lines) -> list[Mapping[str, Any]]:
    """The lines of rounds; a round that is repeated after a resume counts once, its last line."""
    return sorted(
        {int(number_of(line["round"])): line for line in lines if "round" in line}.values(),
        key=lambda line: number_of(line["round"]),
    )


def _limits(total: PopulationTotal | None) -> list[Spending]:
    if total is None:
        return []
    found = [
        Spending(
            name=f"all runs on these users (account {total.population[:8]})",
            epsilon=total.budget,
            delta=total.delta,
            spent=total.spent,
            reserved=total.committed - total.spent,
        )
    ]
    if total.lineage_budget is not None:
        lineage = f"this lineage of boards ({total.lineage[:8]})"
        spent = total.lineage_spent
        found.append(Spending(name=lineage, epsilon=total.lineage_budget, delta=total.delta, spent=spent))
    return found


def _state_of(
    line: Mapping[str, Any] | None,
    releases: Sequence[str],
    booked: set[str],
    coming: Sequence[str],
    *,
    published: bool,
    may_be_lost: bool,
) -> str:
    if line is not None:
        return "lost" if may_be_lost and line.get(LOST, not line.get("releases", True)) else "made"
    if published:  # its line follows when it is judged
        return "made"
    if releases and booked.issuperset(releases):
        return "booked"
    return "next" if releases and list(releases) == list(coming) else "to come"


def _rest(rounds: int, published: Sequence[float]) -> str:
    """How long the rest will take, from how long a round usually takes; what a run stood still does not count."""
    gaps = [later - earlier for earlier, later in pairwise(published)][-8:]
    if not gaps or rounds <= 0:
        return ""
    pace = statistics.median(gaps)
    ends = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(published[-1] + rounds * pace))
    return f"{rounds} to come; a round usually takes {duration(pace)}, so the last may be over at {ends}"


__all__ = ["Lines", "RunReport", "Sections"]
