"""What a device has given so far, and what it has left: read from its own record, while it may be answering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedboard.client.boards.cache import CachedBoard
from fedboard.client.participation.config import DeviceConfig
from fedboard.client.participation.ledger import GivenRelease
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.records import AskedQuestion
from fedboard.client.ratings.store import RatingStore
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import compose, epsilon_of

REASONS: Mapping[Refusal, str] = {
    Refusal.MALFORMED: "the question could not be read",
    Refusal.TOO_LARGE: "it was larger than this device takes",
    Refusal.WRONG_VERSION: "its server runs a version whose sealed replies are of another format; both need one",
    Refusal.WRONG_RUN: "it was of another run than the one under way",
    Refusal.WRONG_ROUND: "it was of another round than the one under way",
    Refusal.WRONG_BOARD: "it was about another board",
    Refusal.WRONG_FORM: "it asked for another protocol or form",
    Refusal.TOO_MANY_USERS: "there are more users here than were admitted",
    Refusal.OUT_OF_BOUNDS: "its numbers were out of bounds",
    Refusal.UNKNOWN_NODE: "this device is not admitted there",
    Refusal.DUPLICATE: "it was answered already",
    Refusal.LATE: "its round was over",
    Refusal.UNREACHABLE: "the transport failed",
    Refusal.UNSIGNED: "nobody had signed it",
    Refusal.BAD_SIGNATURE: "the server that this device trusts had not signed it",
    Refusal.EXPIRED: "its time was over",
    Refusal.BAD_BOARD: "its board was damaged, or the board's certificate does not hold",
    Refusal.OTHER_HISTORY: "its board does not continue the one that was answered before",
    Refusal.NOT_ALLOWED: "your policy does not allow this run",
    Refusal.OTHER_ADJACENCY: "its guarantee is for another adjacency than your limit",
    Refusal.NOT_PRIVATE: "its noise can be reproduced, or is less than you ask for",
    Refusal.SINGLES_OUT: "its catalogue is too small, names an item twice, or is not one that you agreed to",
    Refusal.NOT_PUBLISHED: "its board is not among those that everybody gets",
    Refusal.NOT_WITNESSED: "too few of your witnesses have cosigned its board, or they have cosigned another one",
    Refusal.OVER_LIMIT: "it would take you beyond your limit",
    Refusal.ANSWERED_BEFORE: "it was answered before, and that answer is no longer kept",
    Refusal.NO_RATINGS: "there are no ratings to answer from",
    Refusal.BAD_PROTOCOL: "its protocol is unknown here, or does not keep what it promises",
    Refusal.TOO_FEW: "it would make sums of fewer devices than you ask for",
    Refusal.OTHER_ROSTER: "nobody whom you rely on vouches for the devices of its sums, or for this one",
    Refusal.NOT_CONFIRMED: "too few devices confirmed the sum that it was to help open",
    Refusal.OTHER_HELPER: "its second server is not the one that you rely on",
    Refusal.NO_SESSION: "it belongs to a session that is not known here",
    Refusal.OUT_OF_TURN: "it came out of turn",
    Refusal.INTERNAL: "this device failed; its log says why",
}
"""Each code in words, for whoever owns the device."""
_LIMITS: Mapping[str, str] = {
    "epsilon_per_run": "most epsilon for one run",
    "scale_down": "gives a smaller part where a run costs more",
    "smallest_scale": "smallest part that is given",
    "least_noise": "least noise multiplier of a release",
    "runs": "runs that may ask",
    "tasks": "tasks that may be asked",
    "protocols": "protocols that may be used",
    "least_survivors": "fewest devices in a masked sum",
    "most_honest": "most honest devices that a run may count on",
    "helper": "second server that is relied on",
    "vouched_by": "who vouches for other devices",
    "least_colluding": "share of colluding devices that a masked sum must bear",
    "catalogues": "catalogues that may be asked about",
    "smallest_catalogue": "smallest catalogue",
    "seeded_noise": "takes simulations, which are not private",
    "published_only": "answers about boards alone that everybody gets",
    "answers_kept_hours": "hours that an answer is kept",
}
"""Fields of a policy that are shown, in words."""

_WITHOUT = {"epsilon_per_run": "the whole limit", "helper": "none"}
"""What it means that a field is left out; for the others, that anything is allowed."""


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


def limits_of(policy: Policy) -> Mapping[str, str]:
    """What a policy allows, in words; a list that allows everything is said to do so."""
    return {told: _worded(name, getattr(policy, name)) for name, told in _LIMITS.items()}


def _worded(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return _WITHOUT.get(name, "any")
    return f"{value:g}" if isinstance(value, float) else str(value)
