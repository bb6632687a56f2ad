"""The device's own ledger: what a user has given so far in all runs, and the limit beyond which she gives nothing.

The requests come from a server that need not be trusted, so they are checked here again, and everything is
booked before anything is sent. What is booked is her own part: the release with her own bound, which may be
smaller than the run's (``fedboard.common.contribution_bounding.personal``). A device cannot check that a round was
sampled, so what it answers is booked in full; a round that it does not answer costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.personal import SCALE_STEPS, personal_release
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event, derived_problems, is_amplified, stated_problems
from fedboard.common.privacy.ledger.ledger import Budget, Ledger, Receipt
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.queries.names import of_question

Result = TypeVar("Result")

_BETWEEN = ":"
_ABOUT = "answered"
_LONGEST_NAME = 200
_LONGEST_PHRASE = 2000
_MATRICES = (SumSource.ITEM_QUADRATIC, SumSource.QUADRATIC, SumSource.ITEM_PAIRS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredBoard:
    """What a device remembers of the board that it answered, so that the next one must continue it. Public."""

    round: int
    """Its version."""
    board: str
    """Its digest."""
    terms: str
    """Digest of what a run may not change under way: task, configuration, catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRelease:
    """One answer of this device. Private: it tells in which runs she took part."""

    run: str
    release: str
    covers: str
    """What was summed, in one phrase."""
    scale: float
    """Which part of her contribution she gave; 1 for all of it."""
    noise_multiplier: float
    """z of the noise relative to what she gave: this answer is (1/z)-GDP for her."""
    about: AnsweredBoard | None = None
    """Which board she answered, where that was recorded."""


class DeviceLedger:
    """Durable record of what one user gave to all runs, with a limit of her own.

    Guarantee: when ``admit`` returns, what is about to be sent is on disk, and everything she ever gave costs
    her at most her limit; when it raises, nothing was written and nothing may be sent. The limit holds whatever
    she is asked and whenever that ends: it is held against everything before each answer.
    Not guaranteed: that the server draws the noise that it states; the trust sentences of a run's certificate
    say who must.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Use ``DeviceLedger.create`` or ``DeviceLedger.open``."""
        self._ledger = ledger

    @classmethod
    def create(cls, path: str | Path, limit: Budget) -> "DeviceLedger":
        """Start the record of a device.

        Args:
            path: a file that does not exist yet.
            limit: of everything that this device will ever give. Her own choice.

        Raises:
            InputError: the file exists already or its folder does not.
        """
        return cls(Ledger.create(path, limit, run="device"))

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> "DeviceLedger":
        """Continue the record of a device; its chain is verified first.

        Args:
            path: the file.
            read_only: look, while another process may be writing.

        Raises:
            InputError: no such file, or not a ledger.
            PrivacyError: it was tampered with, or another process is writing to it.
        """
        return cls(Ledger.open(path, read_only=read_only))

    @property
    def limit(self) -> Budget:
        """Her limit."""
        return self._ledger.budget

    def admit(
        self,
        run: str,
        requests: Sequence[Request],
        *,
        scale: float = 1.0,
        about: AnsweredBoard | None = None,
    ) -> tuple[Receipt, ...]:
        """Book the answers to all requests of a round, before anything of them is sent: all or none.

        Args:
            run: name of the run, unique among all runs that ever ask this device. Public.
            requests: of one round; not trusted.
            scale: s in (0, 1], a multiple of ``1 / SCALE_STEPS``: which part she gives.
            about: the board that is answered; part of the record.

        Returns:
            One receipt per request, in their order.

        Raises:
            BudgetExceededError: her limit does not cover them.
            PrivacyError: a request was answered before, is for another adjacency than her limit, states no
                finite bound and noise, or cannot be read at all.
        """
        require_run_name(run)
        events = self._own_events(run, requests, scale)
        if not events:
            raise PrivacyError("a round without requests is not answered")
        if about is not None:
            events = [{**event, _ABOUT: asdict(about)} for event in events]
        return _read(lambda: self._ledger.book_all(events))

    def given(self) -> tuple[GivenRelease, ...]:
        """Everything that she gave, oldest first.

        Raises:
            PrivacyError: a row is none that a device writes.
        """
        return tuple(_given(event) for event in self._ledger.events())

    def spent(self) -> Guarantee:
        """What it counts against her limit together, over all runs, at its delta.

        What holds for her is the limit: servers choose what they ask, and when they stop, by what they were
        given (``fedboard.common.privacy.accounting.budget``).
        """
        return self._ledger.spent()

    def cost_with(
        self,
        requests: Sequence[Request],
        *,
        scale: float = 1.0,
        run: str | None = None,
        questions: bool = False,
    ) -> float:
        """Epsilon of what she gave and these answers together, at the delta of her limit; books nothing.

        Args:
            requests: not trusted.
            scale: which part of them she would give.
            run: count only what she gave to this run; default: to all.
            questions: count only what she gave to questions.

        Raises:
            PrivacyError: a request would be refused whatever the limit.
        """
        events = [*self._events(run, questions), *self._own_events("", requests, scale)]
        cost: float = _read(lambda: epsilon_of_events(events, self.limit.delta))
        return cost

    def largest_scale(
        self,
        plan: Sequence[Sequence[Request]],
        *,
        epsilon: float | None = None,
        run: str | None = None,
        questions: bool = False,
    ) -> float:
        """Largest s with which a whole plan still fits her limit beside what she gave already.

        Args:
            plan: the rounds that are still to come, as from ``Task.plan``; not trusted. For a run that has
                begun, only those that she has not answered.
            epsilon: a stricter limit than hers.
            run: hold only what she gave to this run against it; default: to all.
            questions: hold only what she gave to questions against it.

        Returns:
            A multiple of ``1 / SCALE_STEPS`` in (0, 1], or 0.0 where not even the smallest part fits.

        Raises:
            PrivacyError: a request of the plan would be refused whatever the scale.
        """
        requests = _read(lambda: [request for asked in plan for request in asked])
        allowed = self.limit.epsilon if epsilon is None else min(epsilon, self.limit.epsilon)

        def fits(steps: int) -> bool:
            scale = steps / SCALE_STEPS
            return self.cost_with(requests, scale=scale, run=run, questions=questions) <= allowed

        if fits(SCALE_STEPS):
            return 1.0
        if any(is_amplified(request.release.event()) for request in requests):
            return 0.0  # all of her part or nothing
        low, high = 0, SCALE_STEPS  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low / SCALE_STEPS

    def _events(self, run: str | None, questions: bool) -> list[dict[str, Any]]:
        return [
            event
            for event in self._ledger.events()
            if (run is None or event["run"] == run) and (not questions or of_question(event["release"]))
        ]

    def _own_events(self, run: str, requests: Sequence[Request], scale: float) -> list[dict[str, Any]]:
        adjacency = self.limit.adjacency
        return _read(lambda: [_own_event(run, request, scale, adjacency) for request in requests])

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        self._ledger.close()

    def __enter__(self) -> "DeviceLedger":
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()


def require_run_name(run: object) -> None:
    """Refuse a name that could not be shown to her, or booked, as it is.

    Raises:
        PrivacyError: says what a name must be.
    """
    _require_text(run, "the name of a run", _LONGEST_NAME)
    if _BETWEEN in str(run):
        raise PrivacyError(f"the name of a run must be without {_BETWEEN!r}; nothing is answered")


def _own_event(run: str, request: Request, scale: float, adjacency: Adjacency) -> dict[str, Any]:
    """The event of one answer: the release as she sees it, in full whatever it states about sampling."""
    release = request.release
    _require_text(release.name, "the name of a release", _LONGEST_NAME)
    _require_text(release.covers, "what a release covers", _LONGEST_PHRASE)
    problems = _problems(request, adjacency)
    if problems:
        raise PrivacyError(f"release {release.name!r} is not answered: {'; '.join(problems)}")
    own = replace(personal_release(release, scale), participation=None)
    of_run = {"name": f"{run}{_BETWEEN}{release.name}", "run": run, "release": release.name, "scale": scale}
    return {**own.event(), **of_run}


def _problems(request: Request, adjacency: Adjacency) -> list[str]:
    """What is wrong with a request from a server that is not trusted, one phrase each."""
    release, source = request.release, SumSource(request.source)
    if not isinstance(release, GaussianRelease):
        return ["it is not Gaussian"]
    stated = {field.name: getattr(release, field.name) for field in fields(release)}
    problems = stated_problems({"mechanism": "gaussian", **_without_none(stated)})
    if problems:
        return problems
    problems = derived_problems(release.event())
    if release.adjacency != adjacency:
        problems.append(f"it is for adjacency {release.adjacency}, her limit for {adjacency}")
    if release.same_sign and source is SumSource.ITEM_LINEAR:
        problems.append("it counts on contributions that never cancel, and these do")
    if release.layout == "symmetric" and source not in _MATRICES:
        problems.append("its noise is that of matrices, which it does not ask for")
    return problems


def _without_none(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stated.items() if value is not None}


def _given(event: Event) -> GivenRelease:
    try:
        return msgspec.convert({**event, "about": event.get(_ABOUT)}, GivenRelease)
    except msgspec.ValidationError as error:
        raise PrivacyError(f"the ledger has a row that no device writes: {error}") from None


def _read(attempt: Callable[[], Result]) -> Result:
    """What ``attempt`` gives; whatever goes wrong in requests that make no sense is one kind of refusal."""
    try:
        return attempt()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise PrivacyError(
            f"the requests of a round cannot be read ({type(error).__name__}); nothing is answered"
        ) from None


def _require_text(value: object, what: str, longest: int) -> None:
    """Refuse what could not be shown to her as it is."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > longest:
        raise PrivacyError(
            f"{what} must be a printable text of at most {longest} characters; nothing is answered"
        )
