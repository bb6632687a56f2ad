"""A session on devices: each step is answered once, what is given once for ever, else a code, heard once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.client.participation import rounds as answering
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.steps import Client, MemoryVault, respond_step, respond_to
from fedboard.common.cohort import Cohort
from fedboard.common.messages.question import ROUND, STEP, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import is_sealed
from fedboard.common.messages.step import StepMessage
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.registry import sized_protocol
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums
from tests.client.asking import asking, reply_to, signed
from tests.client.asking import opened as out_of_envelope
from tests.client.certified_boards import Device, Ratings, certified_boards
from tests.client.participation.test_failing_rows import FailsOn
from tests.client.participation.test_rounds import BOARD, TASK
from tests.client.participation.test_rounds import Device as OpenDevice
from tests.client.sessions import Session, a_step, code_of, opened
from tests.common.algorithms.conftest import N_USERS, population

NAMES = ("a", "b", "c", "d")
PROTOCOL = sized_protocol("secure-sum", clients=len(NAMES), users=N_USERS, settings={"survivors": 3})
POLICY = Policy(epsilon=100.0, delta=1e-5, smallest_catalogue=5)


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return certified_boards(tmp_path_factory.mktemp("boards"), TASK)


def rows(number: int) -> Cohort:
    return population().rows(N_USERS * number // len(NAMES), N_USERS * (number + 1) // len(NAMES))


@pytest.fixture
def devices(tmp_path: Path) -> dict[str, Device]:
    found = {name: Device(tmp_path / name, POLICY) for name in NAMES}
    for number, device in enumerate(found.values()):
        device.ratings = Ratings(rows(number))
    return found


def a_session(boards: list[Any], devices: dict[str, Device], version: int = 1, **changes: Any) -> Session:
    return Session(
        board=boards[version],
        protocol=PROTOCOL,
        requests=TASK.requests(boards[version]),
        devices={name: device.step for name, device in devices.items()},
        changes=changes,
    )


def direct(board: Any, numbers: tuple[int, ...]) -> dict[str, Any]:
    """The sums, computed from the ratings of these devices."""
    asked = TASK.requests(board)
    shifts = Packing.of(asked, most_users=N_USERS).shifts
    parts = [coarse_sums(TASK.contribute(rows(k), board, asked), asked, shifts) for k in numbers]
    return {
        request.name: sum(part[request.name] for part in parts) << shifts[request.name] for request in asked
    }


def assert_sums(found: Any, board: Any, numbers: tuple[int, ...]) -> None:
    expected = direct(board, numbers)
    whole = whole_sums(found, TASK.requests(board))
    for name, values in expected.items():
        np.testing.assert_array_equal(whole[name], values)


@pytest.mark.slow
def test_a_session_ends_with_the_sum_of_what_the_devices_hold(
    boards: list[Any], devices: dict[str, Device]
) -> None:
    session = a_session(boards, devices)

    found = session.finish()

    assert session.number >= 3
    assert_sums(found, boards[1], (0, 1, 2, 3))
    names = sorted(request.name for request in TASK.requests(boards[1]))
    assert all(sorted(name for _, name, _ in device.booked()) == names for device in devices.values())


def test_who_is_gone_before_giving_is_not_in_the_sum_and_has_booked_nothing(
    boards: list[Any], devices: dict[str, Device]
) -> None:
    session = a_session(boards, devices)
    session.until_contributions()

    found = session.finish(without=("c",))

    assert_sums(found, boards[1], (0, 1, 3))
    assert not devices["c"].booked()


def test_the_same_step_gets_the_same_reply_again(boards: list[Any], devices: dict[str, Device]) -> None:
    session = a_session(boards, devices)
    while not session.over:
        step, board = session.message_to("a"), session.board_beside
        first, second = (devices["a"].step(signed(step.to_bytes(), board), board) for _ in range(2))
        assert opened(first, step) == opened(second, step)
        assert first != second  # sealed anew
        session.take()
    assert len(devices["a"].booked()) == len(TASK.requests(boards[1]))


def test_a_device_gives_once_for_ever_whatever_the_session(
    boards: list[Any], devices: dict[str, Device]
) -> None:
    """Two sessions about one round are open at a time; one of them gets what it asks for."""
    first, second = (a_session(boards, devices, session=bytes([number]) * 16) for number in range(2))
    second.until_contributions()
    remembered = devices["a"].vault
    devices["a"].vault = MemoryVault()
    first.until_contributions()
    first.take()
    given = devices["a"].booked()
    devices["a"].vault = remembered  # as if it could go on with both

    step = second.message_to("a")
    sent = devices["a"].step(signed(step.to_bytes(), second.board_beside), second.board_beside)

    assert code_of(sent, step) is Refusal.ANSWERED_BEFORE
    assert devices["a"].booked() == given
    third = a_session(boards, devices, session=bytes([7]) * 16)
    step = third.message_to("a")
    assert code_of(devices["a"].step(signed(step.to_bytes(), None), None), step) is Refusal.ANSWERED_BEFORE


def test_a_round_before_the_last_answer_is_not_begun(boards: list[Any], devices: dict[str, Device]) -> None:
    a_session(boards, devices, 2).finish()

    step = a_step(boards[1], PROTOCOL)

    assert code_of(devices["a"].step(signed(step.to_bytes(), None), None), step) is Refusal.WRONG_ROUND


def test_a_device_that_was_restarted_has_lost_its_session(
    boards: list[Any], devices: dict[str, Device]
) -> None:
    session = a_session(boards, devices)
    session.until_contributions()
    devices["b"].vault = MemoryVault()

    assert session.take() == {"b": Refusal.NO_SESSION}
    assert not devices["b"].booked()
    assert_sums(session.finish(), boards[1], (0, 2, 3))


def test_no_secret_of_a_session_reaches_the_disk(boards: list[Any], devices: dict[str, Device]) -> None:
    session = a_session(boards, devices)
    session.until_contributions()
    session.take()

    written = {path.name for path in devices["a"].folder.rglob("*") if path.is_file()}
    content = b"".join(p.read_bytes() for p in devices["a"].folder.rglob("*") if p.is_file())
    assert written <= {"ledger.sqlite", "ledger.sqlite.lock", "refusals.json"}
    remembered = devices["a"].vault.load()
    assert remembered is not None
    pieces = {remembered[start : start + 16] for start in range(0, len(remembered) - 16, 16)}
    assert not [piece for piece in pieces if len(set(piece)) > 8 and piece in content]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"number": 1}, {"parameters": {**PROTOCOL.parameters, "survivors": 2}}], ids=str
)
def test_a_step_out_of_turn_or_under_other_rules_is_refused(
    boards: list[Any], devices: dict[str, Device], change: dict[str, Any]
) -> None:
    session = a_session(boards, devices)
    session.take()
    session.take()

    step = a_step(boards[1], PROTOCOL, **{"number": 2, "message": b"x", **change})
    sent = devices["a"].step(signed(step.to_bytes(), None), None)

    assert code_of(sent, step) is (Refusal.DUPLICATE if step.number == 1 else Refusal.NO_SESSION)
    assert session.take() == {}  # and nothing has changed


@pytest.mark.parametrize(
    ("policy", "change", "code"),
    [
        ({"protocols": ("trusted",)}, {}, Refusal.NOT_ALLOWED),
        ({"runs": ("books-*",)}, {}, Refusal.NOT_ALLOWED),
        ({"least_survivors": 4}, {}, Refusal.TOO_FEW),
        ({}, {"private_noise": False}, Refusal.NOT_PRIVATE),
        ({}, {"protocol": "no-such"}, Refusal.BAD_PROTOCOL),
        ({}, {"parameters": {}}, Refusal.BAD_PROTOCOL),
        ({}, {"parameters": {**PROTOCOL.parameters, "survivors": "3"}}, Refusal.BAD_PROTOCOL),
        ({}, {"parameters": {**PROTOCOL.parameters, "survivors": 1}}, Refusal.BAD_PROTOCOL),
        ({}, {"run": "no\nname"}, Refusal.WRONG_RUN),
    ],
    ids=str,
)
def test_a_session_that_the_policy_does_not_allow_is_not_begun(
    boards: list[Any], tmp_path: Path, policy: dict[str, Any], change: dict[str, Any], code: Refusal
) -> None:
    limits: dict[str, Any] = {"epsilon": 100.0, "delta": 1e-5, "smallest_catalogue": 5}
    device = Device(tmp_path / "own", Policy(**limits, **policy))
    step = a_step(boards[1], PROTOCOL, **change)

    sent = device.step(signed(step.to_bytes(), None), None)

    assert is_sealed(sent)
    assert code_of(sent, step) is code
    assert device.refusals() == {code: 1}
    assert device.vault.load() is None


def test_honest_devices_that_a_run_counts_on_may_not_be_more_than_she_believes_in(
    boards: list[Any], tmp_path: Path
) -> None:
    shares = sized_protocol("distributed-dp", clients=20, users=N_USERS)
    step = a_step(boards[1], shares)
    limits: dict[str, Any] = {"epsilon": 100.0, "delta": 1e-5}
    codes = []
    for most in (shares.parameters["honest"] - 1, shares.parameters["honest"]):
        device = Device(tmp_path / str(most), Policy(**limits, most_honest=most))
        codes.append(code_of(device.step(signed(step.to_bytes(), None), None), step))

    assert codes == [
        Refusal.NOT_PRIVATE,
        Refusal.MALFORMED,
    ]  # the second is let in, and told nothing sensible


@pytest.mark.slow
def test_rows_that_cannot_be_computed_are_empty_in_the_sum_and_booked(
    boards: list[Any], devices: dict[str, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild, unlucky = answering.rebuild_any, rows(1)
    monkeypatch.setattr(
        answering,
        "rebuild_any",
        lambda board, **how: FailsOn(
            rebuild(board, **how), lambda cohort: np.array_equal(cohort.items, unlucky.items)
        ),
    )
    session = a_session(boards, devices)

    found = session.finish()

    assert_sums(found, boards[1], (0, 1, 2, 3))  # each of its rows alone can be computed
    monkeypatch.setattr(
        answering,
        "rebuild_any",
        lambda board, **how: FailsOn(rebuild(board, **how), lambda cohort: _is_of(cohort, unlucky)),
    )
    later = a_session(boards, devices, 2)
    assert_sums(later.finish(), boards[2], (0, 2, 3))
    per_round = len(TASK.requests(boards[1])) + len(TASK.requests(boards[2]))
    assert len(devices["b"].booked()) == per_round
    assert devices["b"].refusals() == {Refusal.INTERNAL: 2}


def _is_of(cohort: Cohort, whole: Cohort) -> bool:
    first = whole.first_row
    return cohort.items.size > 0 and first <= cohort.first_row < first + whole.n_users


class Wayward(OpenDevice):
    """A gate that lets every session in."""

    def protocol_of(self, step: Any, *, backend: str) -> Any:
        self._comes("protocol")
        return PROTOCOL

    def welcome(self, step: Any) -> None:
        self._comes("welcome")


def test_what_cannot_be_booked_is_not_given_and_can_be_asked_again(boards: list[Any]) -> None:
    people = {name: Wayward(ratings=rows(number)) for number, name in enumerate(NAMES)}
    clients = {name: Client(source=one, gate=one, vault=MemoryVault()) for name, one in people.items()}

    def reply(client: Client) -> Any:
        return lambda content, board: respond_step(content, board, client)

    session = Session(
        board=BOARD,
        protocol=PROTOCOL,
        requests=TASK.requests(BOARD),
        devices={name: reply(client) for name, client in clients.items()},
    )
    session.until_contributions()
    people["a"].broken = {"commit": RefusedError(Refusal.OVER_LIMIT)}
    step = session.message_to("a")
    sent = session.devices["a"](signed(step.to_bytes(), session.board_beside), session.board_beside)
    assert code_of(sent, step) is Refusal.OVER_LIMIT

    people["a"].broken = {}
    assert_sums(session.finish(), BOARD, (0, 1, 2, 3))
    order = [event for event in people["b"].events if event in ("admit", "cohort", "commit")]
    assert order == ["admit", "cohort", "commit"]


def test_a_device_draws_noise_that_nobody_can_repeat_whatever_is_stated(boards: list[Any]) -> None:
    device = Wayward()
    client = Client(source=device, gate=device, vault=MemoryVault())
    assert isinstance(client.noise(a_step(BOARD, PROTOCOL, private_noise=False)), SecureNoise)


@settings(max_examples=50)
@given(st.binary(max_size=300), st.none() | st.binary(max_size=50))
def test_whatever_comes_in_a_reply_goes_out(content: bytes, board: bytes | None) -> None:
    device = Wayward()
    client = Client(source=device, gate=device, vault=MemoryVault())

    assert respond_step(content, board, client) == refusal(device.noted[-1])
    assert respond_step(signed(content, board), board, client) == refusal(device.noted[-1])
    step = a_step(BOARD, PROTOCOL, message=content)
    assert is_sealed(respond_step(signed(step.to_bytes(), board), board, client))


STEP_ZERO = a_step(BOARD, PROTOCOL)
SECRET = "she-rated-item-7-with-a-5"
QUESTION = asking(BOARD)
SENT = signed(QUESTION.content)


def told_by(
    device: OpenDevice | Wayward, kind: str, content: bytes, board: bytes | None = None
) -> tuple[bytes, list[Refusal]]:
    """What the device sends, and what it hears of."""
    heard = list[Refusal]()
    client = Client(source=device, gate=device, vault=MemoryVault(), heard=heard.append)
    return respond_to(kind, content, board, client), heard


def test_an_answer_is_that_of_the_gate_behind_it() -> None:
    sent, heard = told_by(OpenDevice(), ROUND, SENT)

    content = out_of_envelope(sent, QUESTION)
    assert content == reply_to(QUESTION, source=OpenDevice(), gate=OpenDevice())
    assert content not in sent
    assert heard == []


@pytest.mark.parametrize(
    ("device", "content", "heard"),
    [
        (OpenDevice(broken={"admit": RefusedError(Refusal.OVER_LIMIT)}), SENT, [Refusal.OVER_LIMIT]),
        (OpenDevice(broken={"commit": RefusedError(Refusal.OVER_LIMIT)}), SENT, [Refusal.OVER_LIMIT]),
        (OpenDevice(broken={"cohort": OSError(SECRET)}), SENT, []),
        (OpenDevice(broken={"recall": OSError(SECRET)}), SENT, [Refusal.INTERNAL]),
        (OpenDevice(), signed(b"no question"), [Refusal.MALFORMED]),
        (OpenDevice(), b"", [Refusal.UNSIGNED]),
    ],
    # Named here: a signed question's own bytes hold the time and differ from process to process.
    ids=["not admitted", "not booked", "no ratings", "not recalled", "no question", "nothing"],
)
def test_each_refusal_is_heard_once(device: OpenDevice, content: bytes, heard: list[Refusal]) -> None:
    assert told_by(device, ROUND, content)[1] == heard


@pytest.mark.parametrize(("kind", "board"), [(ROUND, b"board"), ("query.run-this", None)])
def test_a_kind_that_is_none_is_refused_before_anything_is_read(kind: str, board: bytes | None) -> None:
    device = OpenDevice()

    assert told_by(device, kind, SENT, board) == (refusal(Refusal.MALFORMED), [Refusal.MALFORMED])
    assert device.events == []


@pytest.mark.parametrize(
    ("device", "step", "code"),
    [
        (Wayward(broken={"protocol": RefusedError(Refusal.TOO_FEW)}), STEP_ZERO, Refusal.TOO_FEW),
        (Wayward(broken={"welcome": RefusedError(Refusal.WRONG_ROUND)}), STEP_ZERO, Refusal.WRONG_ROUND),
        (Wayward(broken={"welcome": OSError(SECRET)}), STEP_ZERO, Refusal.INTERNAL),
        (Wayward(), STEP_ZERO, Refusal.MALFORMED),
        (Wayward(), replace(STEP_ZERO, number=1), Refusal.NO_SESSION),
    ],
)
def test_a_step_that_is_refused_is_a_code_and_heard_once(
    device: Wayward, step: StepMessage, code: Refusal
) -> None:
    sent, heard = told_by(device, STEP, signed(step.to_bytes()))

    assert heard == [code]
    assert SECRET.encode() not in sent
