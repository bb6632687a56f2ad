"""What a helper does for its leader, and never twice."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.errors import InputError, PrivacyError, SettingError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.two_server.session import LeaderSession
from fedboard.server.helper.messages import helper_identity, identity_text, read_token
from fedboard.server.helper.rounds import FILE_NAME, AnsweredRounds, HelperRounds
from fedboard.server.run_spec import HelperServer
from tests.common.algorithms.conftest import N_ITEMS
from tests.common.protocols.meetings import BOARDS, TASK, rows_of
from tests.server.helper.rounds_at_hand import Direct, about_of, protocol_for

BOARD = BOARDS["items"]
REQUESTS = TASK.requests(BOARD)


def helper_in(folder: Path, **settings: int) -> tuple[HelperRounds, AnsweredRounds]:
    answered = AnsweredRounds(folder / "state")
    return HelperRounds(helper_identity(folder / "id.key"), answered, **settings), answered


def begun(rounds: HelperRounds, *, board: Board = BOARD, session: str = "01") -> LeaderSession:
    """A session to whose step two clients have replied."""
    about = about_of(board, session=session)
    protocol = protocol_for(2).helped_by(Direct(rounds, board))
    server = protocol.open(about, REQUESTS, ("a", "b"), n_items=N_ITEMS)
    for k, (name, message) in enumerate(server.outgoing().items()):
        given = Given(contribution=rows_of(BOARD, k, k + 1), requests=REQUESTS)
        server.take(name, protocol.join(about, SecureNoise()).answer(message, given))
    return server


def refusal(action: object, *arguments: object) -> Refusal:
    with pytest.raises(RefusedError) as refused:
        action(*arguments)  # type: ignore[operator]
    return refused.value.code


def test_a_round_is_answered_once_and_for_ever_whatever_the_session(tmp_path: Path) -> None:
    rounds, answered = helper_in(tmp_path)
    server = begun(rounds)
    second = begun(rounds, session="02")  # begun before the first one ended
    server.proceed()

    with pytest.raises(Exception, match="answered-before"):
        second.proceed()
    for session in ("01", "03"):
        code = refusal(
            rounds.begin, about_of(BOARD, session=session), protocol_for(2).rules, bytes(BOARD.to_bytes())
        )
        assert code is Refusal.ANSWERED_BEFORE
    assert refusal(rounds.total, about_of(BOARD), ("a", "b")) is Refusal.ANSWERED_BEFORE
    answered.close()
    again, reopened = helper_in(tmp_path)
    assert refusal(
        again.begin, about_of(BOARD, session="04"), protocol_for(2).rules, bytes(BOARD.to_bytes())
    ) is (Refusal.ANSWERED_BEFORE)
    reopened.close()


def test_what_noise_was_added_is_on_record(tmp_path: Path) -> None:
    rounds, answered = helper_in(tmp_path)
    begun(rounds).proceed()

    (row,) = answered.rows()

    assert (row.run, row.name) == ("a run", f"round {BOARD.version}")
    assert row.record["releases"] == [request.release.event() for request in REQUESTS]
    assert row.record["noise"] == SecureNoise().describe()
    assert (row.record["board"], row.record["clients"]) == (BOARD.digest, 2)
    answered.close()


def test_a_record_that_cannot_be_written_keeps_the_total_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, answered = helper_in(tmp_path)
    server = begun(rounds)
    answered._chain.close()

    with pytest.raises(PrivacyError):
        server.proceed()
    answered.close()


def test_one_process_at_a_time_keeps_a_record_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    rounds, answered = helper_in(tmp_path)
    begun(rounds).proceed()
    with pytest.raises(PrivacyError, match="another process"):
        AnsweredRounds(tmp_path / "state")
    answered.close()

    import sqlite3

    with sqlite3.connect(tmp_path / "state" / FILE_NAME) as file:
        file.execute("UPDATE events SET run = 'another run'")
    file.close()
    with pytest.raises(PrivacyError, match="tampered"):
        AnsweredRounds(tmp_path / "state")


def test_the_helper_reads_what_is_asked_off_the_board_that_clients_have_sealed_to(tmp_path: Path) -> None:
    """A leader that names another board, whose noise is smaller, gets no key for the round of the first."""
    rounds, answered = helper_in(tmp_path)
    other = BOARDS["preparation"]
    content = bytes(other.to_bytes())

    assert refusal(rounds.begin, about_of(BOARD), protocol_for(2).rules, content) is Refusal.WRONG_ROUND
    same_version = Board.from_bytes(np.frombuffer(bytes(BOARD.to_bytes()), dtype=np.uint8))
    louder = same_version.successor(counts=np.zeros(3)).to_bytes()
    renamed = f"a run\n{BOARD.version + 1}\n{BOARD.digest}\n01\ntwo-server\nx".encode()
    assert refusal(rounds.begin, renamed, protocol_for(2).rules, bytes(louder)) is Refusal.WRONG_BOARD
    for about in (
        b"",
        b"a run\n1",
        b"a\nb\n" + about_of(BOARD),
        b"\xff\n1\n2\n3\n4\n5",
        about_of(BOARD) + b"\n",
    ):
        assert (
            refusal(rounds.begin, about, protocol_for(2).rules, bytes(BOARD.to_bytes())) is Refusal.MALFORMED
        )
    assert refusal(rounds.begin, about_of(BOARD), protocol_for(2).rules, b"no board") is Refusal.BAD_BOARD
    answered.close()


def test_sums_of_fewer_clients_than_the_helper_wants_are_refused_however_they_are_asked_for(
    tmp_path: Path,
) -> None:
    rounds, answered = helper_in(tmp_path, least_clients=3)
    assert (
        refusal(rounds.begin, about_of(BOARD), protocol_for(2).rules, bytes(BOARD.to_bytes()))
        is Refusal.TOO_FEW
    )
    answered.close()


def test_a_round_that_was_forgotten_for_newer_ones_is_no_longer_known(tmp_path: Path) -> None:
    rounds, answered = helper_in(tmp_path)
    content = bytes(BOARD.to_bytes())
    keys = [rounds.begin(about_of(BOARD, session=str(k)), protocol_for(2).rules, content) for k in range(9)]

    assert len({key.key for key in keys}) == 9
    assert rounds.begin(about_of(BOARD, session="8"), protocol_for(2).rules, content) == keys[8]
    assert refusal(rounds.total, about_of(BOARD, session="0"), ("a", "b")) is Refusal.NO_SESSION
    answered.close()


def test_an_identity_is_made_once_kept_secret_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "id.key"
    key = helper_identity(path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert identity_text(helper_identity(path)) == identity_text(key)
    path.chmod(0o644)
    with pytest.raises(InputError, match="others can read"):
        helper_identity(path)
    assert HelperServer(address="h:1", authority=path, identity=identity_text(key)).identity
    for text in ("", "zz", "ab" * 31, "AB" * 32, "ab" * 32 + "\n"):
        with pytest.raises(SettingError, match="64 hexadecimal"):
            HelperServer(address="h:1", authority=path, identity=text)
    path.write_text("nothing")
    with pytest.raises(InputError, match="no private key"):
        helper_identity(path)


def test_a_token_is_long_secret_and_plain(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("ab" * 32 + "\n")
    path.chmod(0o600)
    assert read_token(path) == "ab" * 32
    path.chmod(0o640)
    with pytest.raises(InputError, match="others can read"):
        read_token(path)
    path.chmod(0o600)
    for wrong in ("short", "ä" * 40, "a b" * 20):
        path.write_text(wrong)
        with pytest.raises(InputError):
            read_token(path)
