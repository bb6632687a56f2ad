"""What a device has given so far, and what it has left: read from its own record, while it may be answering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedboard.client.boards.cache import CachedBoard
from fedboard.client.device.asked_questions import AskedQuestion
from fedboard.client.device.config import DeviceConfig
from fedboard.client.device.ledger import GivenRelease
from fedboard.client.ratings.store import RatingStore
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import compose, epsilon_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenToRun:
    """What one run got. Private: it tells that she took part."""

    run: str
    rounds: tuple[int, ...]
    """Versions of the boards that were answered."""
    releases: int
    scale: float
    """Which part of herself she gave; 1 for all."""
    epsilon: float
    """What this run alone costs her, at the delta of her limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A device's own state. Private."""

    limit: Budget
    spent: float
    """Epsilon of everything given, at the delta of the limit."""
    runs: tuple[GivenToRun, ...]
    refusals: Mapping[str, int]
    """Code -> how often."""
    n_users: int
    """1, or the number of users at a gateway."""
    n_ratings: int | None
    """Ratings in the store; None at a gateway."""
    boards: tuple[CachedBoard, ...]
    questions: tuple[AskedQuestion, ...]
    """The newest that it was asked, answered or not."""

    @property
    def left(self) -> float:
        """Epsilon of the limit less what is spent; the cost of several runs adds up more slowly than this."""
        return max(self.limit.epsilon - self.spent, 0.0)


def status_of(config: DeviceConfig) -> Status:
    """Read a device's state; nothing is changed.

    Raises:
        InputError: a file is missing or damaged.
        PrivacyError: the ledger was tampered with.
    """
    given, spent = given_so_far(config)
    limit = config.policy.limit()
    n_users, n_ratings = _sizes(config)
    return Status(
        limit=limit,
        spent=spent,
        runs=by_run(given, limit.delta),
        refusals={code.value: number for code, number in config.refusals().by_code().items()},
        n_users=n_users,
        n_ratings=n_ratings,
        boards=tuple(config.board_cache().boards()) if config.board.cache.exists() else (),
        questions=tuple(config.asked().all()),
    )


def given_so_far(config: DeviceConfig) -> tuple[tuple[GivenRelease, ...], float]:
    """Everything that was given, oldest first, and its epsilon at the delta of the limit. Private.

    Raises:
        InputError: the ledger is damaged.
        PrivacyError: it was tampered with.
    """
    if not config.ledger.exists():
        return (), 0.0
    with config.open_ledger(read_only=True) as ledger:
        return ledger.given(), ledger.spent().epsilon


def by_run(given: Sequence[GivenRelease], delta: float) -> tuple[GivenToRun, ...]:
    """What each run got, in the order in which they began."""
    runs: dict[str, list[GivenRelease]] = {}
    for entry in given:
        runs.setdefault(entry.run, []).append(entry)
    return tuple(
        GivenToRun(
            run=run,
            rounds=tuple(sorted({entry.about.round for entry in entries if entry.about is not None})),
            releases=len(entries),
            scale=min(entry.scale for entry in entries),
            epsilon=epsilon_of(delta, mu=compose(entry.noise_multiplier for entry in entries)),
        )
        for run, entries in runs.items()
    )


def _sizes(config: DeviceConfig) -> tuple[int, int | None]:
    source = config.open_source()
    if not isinstance(source, RatingStore):
        return source.n_users, None
    with source:
        return 1, len(source)
