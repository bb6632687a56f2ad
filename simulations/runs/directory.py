"""The directory of one run: what is written there and what a resumed run finds; its ledger; names of its rounds.

A run prepares (``preparation``, and with some algorithms ``biases`` and ``pairs``), then come the rounds, or
steps, that ``settings.rounds`` or ``settings.steps`` asks for: ``round 1`` makes the releases ``round-1/...``. Each
of them, the preparation included, ends with a board of its own.
"""

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import write_atomically
from fedboard.common.privacy.accounting.budget import Budget, Plan, planned_events
from fedboard.common.privacy.accounting.calibration import round_of_release
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.run_spec import Promise
from fedboard.simulations.config import PrivacyConfig, SimulationConfig

_BARE = frozenset({"boards", "config.json.part"})
"""What a run that was killed while it made its directory leaves behind."""


_DECISIVE = ("kernels", "protocol", "protocol_settings", "clients", "dropout")
"""Keys of the ``run`` section that show in the board or its certificate: a resumed run keeps them."""


class RunDirectory:
    """Paths and records of a run. Records are written whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Name the directory; nothing is written yet."""
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.ledger = path / "ledger.sqlite"
        self.boards = path / "boards"
        self.certificate = path / "certificate.json"
        self.baselines = path / "baselines.json"
        self.beside = path / "beside.json"
        self.partial_sums = path / "partial-sums.secret"

    def require_free(self) -> None:
        """Refuse a directory that is in use.

        Raises:
            InputError: a run or something else is there already.
        """
        if self.config.exists():
            raise InputError(
                f"{self.path} holds a run already; go on with --resume, or give another directory with --out"
            )
        if self.path.exists() and not (self.path.is_dir() and {p.name for p in self.path.iterdir()} <= _BARE):
            raise InputError(f"{self.path} is in use by something else; give another directory with --out")

    def start(self, config: SimulationConfig) -> None:
        """Make a fresh directory for this configuration.

        Raises:
            InputError: a run or something else is there already, or the directory cannot be made.
        """
        self.require_free()
        try:
            self.boards.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror})") from error
        self.write_json(self.config, msgspec.to_builtins(config))

    def resume(self, config: SimulationConfig) -> None:
        """Check that the run there is the one that is asked for; only how it runs may differ.

        Raises:
            InputError: no run is there, or it was started with another configuration.
        """
        if not self.config.exists():
            raise InputError(f"{self.path} holds no run to resume; start it without --resume")
        stored, asked = self.read_json(self.config), msgspec.json.decode(msgspec.json.encode(config))
        for config_of in (stored, asked):  # where the account is; its id is in the ledger
            config_of["privacy"].pop("population", None)
        for config_of in (stored, asked):
            config_of["run"] = {key: config_of["run"].get(key) for key in _DECISIVE}
        if asked["run"]["kernels"] == "auto":
            asked["run"]["kernels"] = stored["run"]["kernels"]
        different = sorted(k for k in {*stored, *asked} if stored.get(k) != asked.get(k))
        if different:
            raise InputError(
                f"{self.path} was started with another {different[0]!r}; "
                "resume with the same configuration, or start a new run with another --out"
            )

    def write_json(self, path: Path, value: Any) -> None:
        """Write one JSON record atomically."""
        write_atomically(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode())

    def read_json(self, path: Path) -> Any:
        """Read one JSON record."""
        return json.loads(path.read_text(encoding="utf-8"))

    def lines(self) -> list[dict[str, Any]]:
        """Metric records so far; a last line that a crash cut short is left out."""
        if not self.metrics.exists():
            return []
        found = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return found

    def keep_lines(self, lines: list[dict[str, Any]]) -> None:
        """Replace the metric records."""
        text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in lines)
        write_atomically(self.metrics, text.encode())

    def append(self, line: dict[str, Any]) -> None:
        """Add one metric record."""
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, sort_keys=True, allow_nan=False) + "\n")


RUNS = Path("runs")


def fresh(wanted: Path) -> Path:
    """``wanted`` if nothing is there, else the first of ``wanted-2``, ``wanted-3``, ... that is free."""
    candidates = (
        wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}") for number in count(1)
    )
    return next(
        path for path in candidates if not path.exists() or (path.is_dir() and not any(path.iterdir()))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of several runs that one ledger pays for, and whose boards all promise that ledger's budget.

    Guarantee: nothing of it is released that the ledger's budget does not cover together with all other parts, nor
    anything if its plan costs more than its own promise. Every field is public.
    """

    ledger: Path
    """Made before the first part, with the budget of all of them and no plan: later parts follow from earlier."""
    budget: Budget
    """Of all parts together."""
    name: str
    """Of this part; in the ledger its releases are ``name/release``."""
    population: Path | None = None
    """The account that the ledger was made with."""
    assumptions: tuple[str, ...] = ()
    """What its certificates say beyond every run's."""

    @property
    def prefix(self) -> str:
        """What stands before its releases' names."""
        return f"{self.name}/"

    def open(self, run: RunDirectory, plan: Plan, promise: Promise, stack: ExitStack) -> Ledger:
        """The ledger; the stack closes it. The run's directory gets a link to it, for those who verify a run.

        Args:
            run: where this part is kept.
            plan: of this part's releases.
            promise: what this part by itself may cost.
            stack: closes what is opened.

        Raises:
            BudgetExceededError: the plan costs more than the part may.
            PrivacyError: the ledger is missing or was made for something else.
        """
        cost = epsilon_of_events(planned_events(plan, promise.adjacency), promise.delta)
        promise.budget.require_affordable(f"the plan of {self.name}", spent=0.0, after=cost)
        if not self.ledger.is_file():
            raise PrivacyError(
                f"{self.ledger}: the ledger that pays for everything here is not there; restore it, or start anew"
            )
        account = None if self.population is None else stack.enter_context(Population.open(self.population))
        ledger = stack.enter_context(Ledger.open(self.ledger, population=account))
        if ledger.budget != self.budget or ledger.plan is not None:
            raise PrivacyError(
                f"{self.ledger}: this ledger was made for another budget; restore the one of {self.name}"
            )
        with suppress(
            OSError
        ):  # there already, or no such thing on this disk: whoever verifies names the ledger
            run.ledger.symlink_to(os.path.relpath(self.ledger, run.path))
        return ledger


def give_back(run: RunDirectory, privacy: PrivacyConfig) -> None:
    """Free what is reserved for a run that failed before it had released anything."""
    if privacy.population is None or not run.ledger.exists():
        return
    with Ledger.open(run.ledger, read_only=True) as ledger:
        identity = ledger.id
    with Population.open(privacy.population) as population:
        population.give_back(identity)


def round_names(plan: Sequence[Sequence[Request]]) -> tuple[str, ...]:
    """The name of every round, in their order.

    Args:
        plan: all requests of a run, round by round, as from ``Task.plan``. Public.

    Returns:
        Such as ``("preparation", "biases", "round 1", "round 2")``.
    """
    return tuple(round_of_release(requests[0].release.name).replace("-", " ") for requests in plan)


def counted(name: str) -> str | None:
    """``round`` or ``step`` for one that is counted; None for what comes before those."""
    kind, _, number = name.partition(" ")
    return kind if number.isdecimal() else None


def rounds_told(names: Sequence[str]) -> str:
    """All of them in a phrase: ``preparation, biases and 8 rounds``."""
    parts: list[str] = []
    for kind, group in groupby(names, key=counted):
        found = list(group)
        parts += (
            dict.fromkeys(found) if kind is None else [f"{len(found)} {kind}{'s' if len(found) > 1 else ''}"]
        )
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def place_of(name: str, names: Sequence[str]) -> str:
    """A round among the others: ``round 3 of 8``, or its name alone where it is not counted."""
    kind = counted(name)
    return name if kind is None else f"{name} of {sum(counted(other) == kind for other in names)}"
