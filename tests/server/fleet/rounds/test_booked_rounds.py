"""Noise is drawn after devices hold that it is paid for: whatever a server loses, none draws it a second time."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fedboard.client.participation.records import BookedRounds
from fedboard.common.errors import PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import BookedRound
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import QuestionKey
from fedboard.server.fleet.rounds.session_rounds import SessionRuntime
from fedboard.server.fleet.rounds.trusted_rounds import FleetRuntime
from fedboard.server.fleet.running import run_job
from fedboard.server.publication import BoardStore
from fedboard.server.training import FinishedRound
from tests.client.asking import SERVER
from tests.server.fleet import local_fleet
from tests.server.fleet.local_fleet import Fleet, Phone, Weather, digests, events, phone

pytestmark = pytest.mark.slow

N_ROUNDS = 3
SETTINGS = {"noise": "secure", "quorum": 3, "deadline_seconds": 5.0, "attempts": 1}


class Killed(BaseException):
    """``kill -9``, as far as this process goes."""


@dataclass(frozen=True)
class Holding(Phone):
    """A phone that holds what it is told as a device does."""

    booked: BookedRounds = field(kw_only=True)

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        return self.booked.hold(booked, signed)

    def admit(self, question: Any, board: Any, requests: Any) -> float:
        if question.round <= self.booked.newest(question.run):
            raise RefusedError(Refusal.WRONG_ROUND)
        return 1.0


Hold = Callable[[int, BookedRound, bytes], bytes | None]
"""What a node says instead; None: what an honest one would."""


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Hold]:
    """Phones that remember over all runs of a test; ``hold`` may be put in, for a node that lies."""
    lies: dict[str, Hold] = {}

    @dataclass(frozen=True)
    class Lying(Holding):
        number: int = field(kw_only=True)

        def hold(self, booked: BookedRound, signed: bytes) -> bytes:
            said = lies["hold"](self.number, booked, signed) if "hold" in lies else None
            return super().hold(booked, signed) if said is None else said

    def a_phone(number: int) -> Phone:
        return Lying(phone(number).ratings, booked=BookedRounds(tmp_path / f"{number}.json"), number=number)

    monkeypatch.setattr(local_fleet, "phone", a_phone)
    return lies


def go_on(
    folder: Path, *, until: int | None = None, weather: Weather | None = None, **settings: Any
) -> list[dict[str, Any]]:
    """Train, and be killed after so many boards; the lines of the log."""
    fleet = Fleet(folder, weather=weather or Weather(), settings={**SETTINGS, **settings})
    nodes = fleet.nodes()

    def finished(done: FinishedRound) -> None:
        if done.board.version == until:
            raise Killed

    with suppress(Killed):
        run_job(nodes, fleet.job, on_round=finished)
    return local_fleet.Outcome(folder, BoardStore(folder / "boards").latest(), nodes.asked).rounds


@contextmanager
def killed(monkeypatch: pytest.MonkeyPatch, moment: str, number: int) -> Iterator[None]:
    """In the round of this number: before it is booked, with what is booked told to nobody, or to all."""
    with monkeypatch.context() as patched:
        real_open, real_gather = FleetRuntime.open, FleetRuntime.gather

        def gathered(self: FleetRuntime, board: Any, *more: Any) -> Any:
            found = real_gather(self, board, *more)
            if moment == "before booking" and board.version == number:
                raise Killed
            return found

        def opened(self: FleetRuntime, *sums: Any) -> Any:
            if moment == "before telling" and self._round == number:
                raise Killed
            found = real_open(self, *sums)
            if moment == "after telling" and self._round == number:
                raise Killed
            return found

        patched.setattr(FleetRuntime, "gather", gathered)
        patched.setattr(FleetRuntime, "open", opened)
        yield


@pytest.mark.parametrize(
    ("moment", "lost"), [("before booking", 0), ("before telling", 1), ("after telling", 1)]
)
def test_a_server_that_is_killed_at_any_moment_goes_on(
    tmp_path: Path, devices: Any, monkeypatch: pytest.MonkeyPatch, moment: str, lost: int
) -> None:
    with killed(monkeypatch, moment, 1):
        go_on(tmp_path / "run")

    lines = go_on(tmp_path / "run")

    assert [line["round"] for line in lines] == list(range(N_ROUNDS))
    assert sum(line["lost"] for line in lines) == lost


@pytest.mark.parametrize("copied_after", [0, 1, 2])
def test_a_copy_that_was_put_back_stops_before_anything_is_asked_booked_or_published(
    tmp_path: Path, devices: Any, copied_after: int
) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    if copied_after:
        go_on(run, until=copied_after)
    else:
        with pytest.MonkeyPatch.context() as patched, killed(patched, "before booking", 0):
            go_on(run)
    shutil.copytree(run, copy)
    go_on(run, until=copied_after + 1)
    before = digests(copy), events(copy)

    for _ in range(2):
        with pytest.raises(PrivacyError, match="this server is behind its devices"):
            go_on(copy)

    assert (digests(copy), events(copy)) == before
    assert [line["lost"] for line in go_on(run)] == [False] * N_ROUNDS, "the newest state goes on"


def test_a_copy_of_the_same_round_draws_no_noise_either(tmp_path: Path, devices: dict[str, Hold]) -> None:
    """Those who hold the round are away until the copy has booked it too: then they say so, before its noise."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    go_on(run, until=1)
    shutil.copytree(run, copy)
    go_on(run, until=2)
    forgot = [path.rename(path.with_suffix(".away")) for path in tmp_path.glob("*.json")]
    came_back = list[int]()

    def comes_back(number: int, booked: BookedRound, signed: bytes) -> bytes | None:
        if booked.round == 1 and not came_back:
            came_back.append(number)
            return BookedRounds(forgot[0]).hold(booked, signed)
        return None

    devices["hold"] = comes_back
    with pytest.raises(PrivacyError, match="this server is behind its devices"):
        go_on(copy)
    assert came_back
    assert len(digests(copy)) == 2, "no second board 2"


def evidence(key: QuestionKey, **changed: Any) -> Hold:
    """A node that says it was told of round 99."""

    def hold(number: int, booked: BookedRound, signed: bytes) -> bytes | None:
        made_up = msgspec.structs.replace(booked, **{"round": 99, **changed})
        return key.sign(made_up.to_bytes(), seconds=60) if number == 0 else None

    return hold


@pytest.mark.parametrize(
    "lie",
    [
        evidence(QuestionKey()),
        evidence(SERVER, run="another-run"),
        lambda number, booked, signed: b"junk" if number == 0 else None,
        lambda number, booked, signed: bytes(1 << 20) if number == 0 else None,
    ],
    ids=["another key", "another run", "junk", "too much"],
)
def test_one_device_that_lies_stops_nobody(tmp_path: Path, devices: dict[str, Hold], lie: Hold) -> None:
    devices["hold"] = lie

    lines = go_on(tmp_path / "run")

    assert [line["lost"] for line in lines] == [False] * N_ROUNDS


def test_what_the_server_itself_has_signed_stops_it(tmp_path: Path, devices: dict[str, Hold]) -> None:
    """The control of the test above."""
    devices["hold"] = evidence(SERVER)

    with pytest.raises(PrivacyError, match="this server is behind its devices"):
        go_on(tmp_path / "run")


@pytest.mark.parametrize(("failing", "lost"), [(1, False), (2, True)])
def test_without_a_quorum_that_holds_it_no_noise_is_drawn(
    tmp_path: Path, devices: dict[str, Hold], failing: int, lost: bool
) -> None:
    """Of four whose quorum is three, in round 1 alone."""

    def full_disk(number: int, booked: BookedRound, signed: bytes) -> bytes | None:
        if booked.round == 1 and number < failing:
            raise OSError("disk full")
        return None

    devices["hold"] = full_disk
    lines = go_on(tmp_path / "run", deadline_seconds=1.0, grace_seconds=0.1)

    assert [line["lost"] for line in lines] == [False, lost, False]
    assert len(digests(tmp_path / "run")) == N_ROUNDS + 1


def test_who_gave_and_is_away_for_a_while_is_waited_for(tmp_path: Path, devices: dict[str, Hold]) -> None:
    """Two of four whose quorum is three, for longer than one deadline: the round is paid for."""
    away = {number: iter([True] * 8) for number in (0, 1)}

    def comes_later(number: int, booked: BookedRound, signed: bytes) -> bytes | None:
        if booked.round == 1 and next(away.get(number, iter([])), False):
            raise OSError("busy")
        return None

    devices["hold"] = comes_later
    lines = go_on(tmp_path / "run", deadline_seconds=0.1, grace_seconds=0.1)

    assert [line["lost"] for line in lines] == [False] * N_ROUNDS


def test_a_preparation_that_too_few_hold_is_never_drawn(tmp_path: Path, devices: dict[str, Hold]) -> None:
    def full_disk(number: int, booked: BookedRound, signed: bytes) -> bytes | None:
        if booked.round == 0:
            raise OSError("disk full")
        return None

    devices["hold"] = full_disk
    with pytest.raises(TooFewAnswersError, match=r"0 of those who gave .* quorum is 3; no noise was drawn"):
        go_on(tmp_path / "run", deadline_seconds=1.0)
    assert len(digests(tmp_path / "run")) == 1


@pytest.mark.parametrize(("kind", "protocol"), [(FleetRuntime, "trusted"), (SessionRuntime, "secure-sum")])
def test_sums_get_no_noise_before_devices_hold_the_round(
    kind: Any, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[tuple[Any, ...]]()

    def confirm(*round_: Any) -> None:
        told.append(round_)
        raise PrivacyError("too few hold it")

    monkeypatch.setattr(kind, "confirm", lambda _, *round_: confirm(*round_))
    runtime, receipts = object.__new__(kind), [SimpleNamespace(seq=n, hash=f"head {n}") for n in (2, 1)]
    runtime.protocol, runtime._round, runtime._gave = SimpleNamespace(name=protocol), 7, frozenset({"ann"})
    booked = {receipt.hash: SimpleNamespace(receipt=receipt) for receipt in receipts}

    with pytest.raises(PrivacyError, match="too few hold it"):
        runtime.open(None, (), booked)
    assert told == [(7, "head 2", {"ann"})]
