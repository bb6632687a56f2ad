"""An invitation admits one key, once, whatever is asked at the same time or again; senders have limits."""

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from fedboard.common.errors import InputError, StorageError
from fedboard.common.messages.enrolment import JoinError, JoinRefusal
from fedboard.server.fleet.enrolment import Allowance
from fedboard.server.fleet.register import Capacity, Register

ROOM = Capacity(devices=3, users=6)
SECRET, OTHER = b"a" * 32, b"b" * 32


class Clock:
    """Stands still until it is set."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def register(tmp_path: Path, clock: Clock) -> Register:
    return Register(tmp_path / "members.sqlite", clock=clock)


def refusal(register: Register, secret: bytes, key: str, capacity: Capacity = ROOM) -> JoinRefusal:
    with pytest.raises(JoinError) as refused:
        register.join(secret, key, capacity=capacity)
    return refused.value.code


def names(register: Register) -> list[str]:
    return [member.name for member in register.admitted()]


def test_an_invitation_admits_one_key_once_and_the_same_key_again(register: Register) -> None:
    register.invite(SECRET, name="ann", max_users=2, seconds=60)

    first = register.join(SECRET, "KEY", capacity=ROOM, version="0.1")
    again = register.join(SECRET, "KEY", capacity=ROOM, version="0.1")

    assert first == again
    assert (first.name, first.max_users, first.admitted, first.version) == ("ann", 2, True, "0.1")
    assert refusal(register, SECRET, "ANOTHER") is JoinRefusal.USED
    assert names(register) == ["ann"]
    assert register.invitations() == []
    assert register.presented_again() == ["ann"]


def test_what_is_kept_is_no_secret(tmp_path: Path) -> None:
    place = tmp_path / "members.sqlite"
    with Register(place) as register:
        register.invite(SECRET, name="ann", max_users=1, seconds=60)

    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert SECRET not in kept
    assert SECRET.hex().encode() not in kept


def test_it_ends_with_its_time_and_can_be_withdrawn(register: Register, clock: Clock) -> None:
    register.invite(SECRET, name="ann", max_users=1, seconds=60)
    register.invite(OTHER, name="bob", max_users=1, seconds=600)
    clock.seconds += 61
    assert refusal(register, SECRET, "KEY") is JoinRefusal.EXPIRED
    assert register.remove("bob") == "invitation"

    assert refusal(register, OTHER, "KEY") is JoinRefusal.UNKNOWN
    assert refusal(register, b"c" * 32, "KEY") is JoinRefusal.UNKNOWN
    assert names(register) == []


def test_of_many_who_present_it_at_once_one_is_admitted(tmp_path: Path) -> None:
    place = tmp_path / "members.sqlite"
    with Register(place) as register:
        register.invite(SECRET, name="ann", max_users=1, seconds=60)
    came, refused, begin = list[str](), list[JoinRefusal](), threading.Barrier(8)

    def present(key: str) -> None:
        with Register(place) as mine:
            begin.wait()
            try:
                came.append(mine.join(SECRET, key, capacity=ROOM).key)
            except JoinError as error:
                refused.append(error.code)

    threads = [threading.Thread(target=present, args=(f"KEY {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(came) == 1
    assert refused == [JoinRefusal.USED] * 7
    with Register(place) as register:
        assert [member.key for member in register.admitted()] == came


def test_a_crash_before_the_end_of_the_transaction_leaves_the_invitation_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "members.sqlite"
    with Register(place) as register:
        register.invite(SECRET, name="ann", max_users=1, seconds=60)
        monkeypatch.setattr(Register, "_by_key", lambda self, key: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            register.join(SECRET, "KEY", capacity=ROOM)
    monkeypatch.undo()

    with Register(place) as register:
        assert names(register) == []
        assert register.join(SECRET, "ANOTHER", capacity=ROOM).name == "ann"


def test_no_more_join_than_the_sums_are_sized_for(register: Register) -> None:
    for number, name in enumerate(("a", "b", "c", "d")):
        register.invite(bytes([number]) * 32, name=name, max_users=3, seconds=60)
    register.join(bytes(32), "A", capacity=ROOM)
    register.join(b"\1" * 32, "B", capacity=ROOM)

    assert refusal(register, b"\2" * 32, "C") is JoinRefusal.FULL
    assert refusal(register, b"\2" * 32, "C", Capacity(devices=2, users=99)) is JoinRefusal.FULL
    register.remove("a")
    assert register.join(b"\2" * 32, "C", capacity=ROOM).name == "c"


def test_a_removed_key_never_comes_back(register: Register) -> None:
    register.invite(SECRET, name="ann", max_users=1, seconds=60)
    register.join(SECRET, "KEY", capacity=ROOM)
    assert register.remove("ann") == "device"
    register.invite(OTHER, name="ann", max_users=1, seconds=60)

    assert refusal(register, SECRET, "KEY") is JoinRefusal.REMOVED
    assert refusal(register, OTHER, "KEY") is JoinRefusal.REMOVED
    assert names(register) == []
    assert register.join(OTHER, "NEW KEY", capacity=ROOM).name == "ann"
    with pytest.raises(InputError, match="no device and no open invitation is called 'bob'; there are ann"):
        register.remove("bob")


def test_an_identity_is_one_members_and_is_gone_with_it(register: Register) -> None:
    for number, name in enumerate(("a", "b", "c")):
        register.invite(bytes([number]) * 32, name=name, max_users=1, seconds=60)
    register.join(bytes(32), "A", capacity=ROOM, identity="1d")

    def code() -> JoinRefusal:
        with pytest.raises(JoinError) as refused:
            register.join(b"\1" * 32, "B", capacity=ROOM, identity="1d")
        return refused.value.code

    assert code() is JoinRefusal.TAKEN
    register.remove("a")
    assert code() is JoinRefusal.REMOVED
    assert register.join(b"\1" * 32, "B", capacity=ROOM, identity="2d").identity == "2d"


def test_a_member_cannot_be_another_member_too(register: Register) -> None:
    register.invite(OTHER, name="gateway", max_users=3, seconds=60)
    register.join(OTHER, "KEY", capacity=ROOM)
    register.invite(SECRET, name="ann", max_users=1, seconds=60)

    assert refusal(register, SECRET, "KEY") is JoinRefusal.TAKEN
    with pytest.raises(InputError, match="called 'ann'"):
        register.invite(b"c" * 32, name="ann", max_users=1, seconds=60)
    with pytest.raises(InputError, match="called 'gateway'"):
        register.invite(b"c" * 32, name="gateway", max_users=1, seconds=60)


def test_every_change_by_anybody_shows(tmp_path: Path) -> None:
    with Register(tmp_path / "m") as mine, Register(tmp_path / "m") as other:
        seen = {mine.state()}
        other.invite(SECRET, name="a", max_users=1, seconds=60)
        assert mine.state() not in seen
        seen.add(mine.state())
        mine.remove("a")
        assert mine.state() not in seen
        assert mine.state() == mine.state()


def test_what_is_no_register_or_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database\n" * 100)
    with pytest.raises(StorageError, match="cannot be used"):
        Register(tmp_path / "text")
    later = sqlite3.connect(tmp_path / "later")
    later.execute("PRAGMA user_version = 3")
    later.commit()
    later.close()
    with pytest.raises(StorageError, match="register of format 3") as refused:
        Register(tmp_path / "later")
    # It is closed at once: as long as somebody held the error, its locks would keep others waiting.
    assert refused.value.args
    assert sorted(one.name for one in tmp_path.iterdir()) == ["later", "text"]


def test_what_was_used_up_comes_back_within_a_minute() -> None:
    clock = Clock()
    allowance = Allowance(per_minute=600, clock=clock)

    assert allowance.take("ann", 600)
    assert not allowance.take("ann", 1)
    clock.seconds += 10.0
    assert allowance.take("ann", 100)
    assert not allowance.take("ann", 1)
    clock.seconds += 1000.0
    assert allowance.take("ann", 600)
    assert not allowance.take("ann", 1)


def test_nobody_uses_up_what_is_anothers() -> None:
    allowance = Allowance(per_minute=600, clock=Clock())

    assert allowance.take("eve", 600)
    assert allowance.take("ann", 600)


def test_what_does_not_fit_uses_nothing_up() -> None:
    allowance = Allowance(per_minute=600, clock=Clock())

    assert not allowance.take("ann", 601)
    assert allowance.take("ann", 600)


def test_senders_without_number_are_forgotten_once_they_have_everything_back() -> None:
    clock = Clock()
    allowance = Allowance(per_minute=1, clock=clock)
    for number in range(20_000):
        allowance.take(number, 1)
    clock.seconds += 61.0

    assert allowance.take("ann", 1)
    assert list(allowance._used) == ["ann"]
