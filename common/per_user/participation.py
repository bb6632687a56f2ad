"""Who takes part in a round: the object that draws the coins is the one that says so in the releases.

``run_round`` takes a ``Participation``, makes the ``Attendance`` of the round from it, and lets that one object
mark the round's requests (from where the field goes into event, ledger and certificate) and draw who takes
part. Sampling is thus accounted only where it was done.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from fedboard.common.arrays import BoolArray
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.per_user.present_rows import PresentRows
from fedboard.common.privacy.releases.noise import NoiseSource

_PREPARATION = "preparation"
_ROUND = "round-"


def round_name(version: int) -> str:
    """Name of the round that follows the board of this version: "preparation", "round-1", ..."""
    return _PREPARATION if version == 0 else f"{_ROUND}{version}"


def round_number(name: str) -> int:
    """The inverse of ``round_name``.

    Raises:
        InputError: not the name of a round.
    """
    number = name.removeprefix(_ROUND)
    if name == _PREPARATION:
        return 0
    if not name.startswith(_ROUND) or not number.isdecimal():
        raise InputError(f"a round is named {_PREPARATION!r}, '{_ROUND}1', ..., got {name!r}")
    return int(number)


class Participation(Protocol):
    """How it is decided who takes part in a round. Public; the coins are secret.

    Guarantee: who takes part depends on coins and row numbers alone, never on ratings.
    """

    @property
    def assumption(self) -> str | None:
        """What the guarantee takes for granted about it, one sentence; None where everybody takes part."""
        ...

    def event_field(self, name: str) -> dict[str, Any] | None:
        """What the events of round ``name`` state as ``participation``; None where everybody takes part."""
        ...

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> BoolArray | None:
        """Who takes part in round ``name``: bool, shape (n_users,), secret; None for everybody."""
        ...

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> PresentRows | None:
        """The same, asked for a range of rows at a time and in memory that does not grow with users."""
        ...


@dataclass(frozen=True, slots=True)
class FullParticipation:
    """Everybody takes part in every round."""

    assumption: ClassVar[None] = None

    def event_field(self, name: str) -> None:
        """Nothing to state."""
        return

    def draw(self, n_users: int, noise: NoiseSource, name: str) -> None:
        """Nothing to draw."""
        return

    def rows(self, n_users: int, noise: NoiseSource, name: str) -> None:
        """Nothing to draw."""
        return


@dataclass(slots=True, kw_only=True)
class Attendance:
    """Who takes part in one round: marks the round's releases and draws its coins, once.

    Guarantee: ``require_drawn`` passes only after ``draw``; nothing is booked before it has passed.
    Not guaranteed: that a runtime which has drawn asks nobody else; see ``Runtime.gather``.
    """

    participation: Participation
    name: str
    """Of the round."""
    noise: NoiseSource
    """Where the coins come from: a stream of their own."""
    _drawn: bool = field(default=False, init=False)

    def mark(self, requests: Iterable[Request]) -> tuple[Request, ...]:
        """The requests with what their events state about participation.

        Raises:
            PrivacyError: a request states one already, or one that cannot be accounted.
        """
        asked = tuple(requests)
        require_unsampled(asked)
        stated = self.participation.event_field(self.name)
        if stated is None:
            return asked
        return tuple(replace(r, release=replace(r.release, participation=stated)) for r in asked)

    def draw(self, n_users: int) -> BoolArray | None:
        """Who takes part: bool, shape (n_users,), secret; None for everybody.

        Raises:
            PrivacyError: it was drawn before; a second draw would be another round.
        """
        self._draw_once()
        return self.participation.draw(n_users, self.noise, self.name)

    def rows(self, n_users: int) -> PresentRows | None:
        """The same, for whoever asks for a range of rows at a time; None for everybody.

        Raises:
            PrivacyError: as of ``draw``.
        """
        self._draw_once()
        return self.participation.rows(n_users, self.noise, self.name)

    def _draw_once(self) -> None:
        if self._drawn:
            raise PrivacyError(f"who takes part in round {self.name!r} was drawn before; it is drawn once")
        self._drawn = True

    def require_drawn(self) -> None:
        """Refuse a round whose runtime has asked everybody although the releases state otherwise.

        Raises:
            PrivacyError: nothing was drawn.
        """
        if not self._drawn and self.participation.event_field(self.name) is not None:
            raise PrivacyError(
                f"round {self.name!r} states who takes part but nobody was drawn; nothing was released"
            )


def require_unsampled(requests: Iterable[Request]) -> None:
    """Refuse requests that state a participation of their own: only an attendance may, which also draws.

    Raises:
        PrivacyError: names the release.
    """
    for request in requests:
        if request.release.participation is not None:
            raise PrivacyError(
                f"release {request.name!r} states who takes part, but nobody was drawn for it; "
                "give the participation to the run instead"
            )


def stated_by_release(
    rounds: Iterable[Iterable[Request]], participation: Participation
) -> dict[str, dict[str, Any] | None]:
    """What the event of each planned release will state about who takes part, by release name.

    Args:
        rounds: as from ``Task.plan``: the round after board 0, after board 1, ... Public.
        participation: of the run.
    """
    return {
        request.name: participation.event_field(round_name(version))
        for version, requests in enumerate(rounds)
        for request in requests
    }
