"""A helper as a real process over TLS: a whole round, a wrong leader, and a restart in the middle."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest

from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.sums.residues import coarse_sums
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.common.protocols.two_server.session import LeaderSession
from fedboard.server.helper.link import HelperLink
from fedboard.server.helper.messages import REFUSED, SERVICE, Begin, Take, Total, packed
from fedboard.server.helper.rounds import AnsweredRounds
from fedboard.server.tls import make_authority
from tests.common.algorithms.conftest import N_ITEMS
from tests.common.protocols.meetings import BOARDS, TASK, rows_of
from tests.server.helper.rounds_at_hand import about_of, protocol_for
from tests.server.vouched import vouched_pair

pytestmark = pytest.mark.slow

BOARD = BOARDS["items"]
REQUESTS = TASK.requests(BOARD)
START_SECONDS = 60.0


def command(folder: Path) -> list[str]:
    """Of a helper with these files, on a free port."""
    words: list[str | Path] = [
        "helper",
        "--address",
        "127.0.0.1:0",
        "--identity",
        folder / "id.key",
        "--state",
        folder / "state",
    ]
    words += ["--certificate", folder / "helper.pem", "--private-key", folder / "helper.key"]
    return [sys.executable, "-c", "from fedboard.cli.main import main; main()", *map(str, words)]


class Process:
    """``fedboard helper`` on a free port."""

    def __init__(self, folder: Path, *flags: str) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
        start = [*command(folder), *flags]
        self.process = subprocess.Popen(
            start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, bufsize=1
        )
        self.identity, self.port = "", 0
        too_long = threading.Timer(START_SECONDS, self.process.kill)
        too_long.start()
        try:
            self.identity = self._line(r"helper ([0-9a-f]{64})")
            self.port = int(self._line(r"listening on .*, port (\d+);"))
        except BaseException:
            self.end(signal.SIGKILL)
            raise
        finally:
            too_long.cancel()

    def _line(self, pattern: str) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(pattern, line)
        assert found, f"the helper said: {line or 'nothing'}"
        return found[1]

    def end(self, how: signal.Signals, *, to_another_thread: bool = False) -> int:
        threads = Path(f"/proc/{self.process.pid}/task")
        if to_another_thread and threads.exists():  # the system gives a process's signal to any of them
            os.kill(max(int(thread.name) for thread in threads.iterdir()), how)
        else:
            self.process.send_signal(how)
        assert self.process.stdout is not None
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # it says where each of its threads is
            raise AssertionError(f"it did not end: {self.process.communicate()[0]}") from None
        self.process.stdout.close()
        return code


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Process]:
    started = Process(folder, *flags)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.end(signal.SIGKILL)


@contextmanager
def linked(
    folder: Path, port: int, *, token: str | None = "token", seconds: float = 20.0
) -> Iterator[HelperLink]:
    link = HelperLink(
        f"127.0.0.1:{port}",
        authority=folder / "authority.pem",
        token=None if token is None else folder / token,
        seconds=seconds,
    )
    try:
        yield link
    finally:
        link.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vouched_pair(tmp_path, pair="helper")
    for name, content in (("token", "ab" * 32), ("wrong-token", "cd" * 32)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def answered(protocol: TwoServer, about: bytes) -> LeaderSession:
    """A session to whose step two clients have replied."""
    server = protocol.open(about, REQUESTS, ("a", "b"), n_items=N_ITEMS)
    for k, (name, message) in enumerate(server.outgoing().items()):
        given = Given(contribution=rows_of(BOARD, k, k + 1), requests=REQUESTS)
        server.take(name, protocol.join(about, SecureNoise()).answer(message, given))
    return server


def test_a_round_over_tls_then_a_kill_and_a_restart_and_nothing_is_answered_twice(folder: Path) -> None:
    flags = ("--token", str(folder / "token"))
    about, second = about_of(BOARD), about_of(BOARD, session="02")
    with running(folder, *flags) as process, linked(folder, process.port) as link:
        protocol = protocol_for(2).pinned(bytes.fromhex(process.identity)).helped_by(link.about(BOARD))
        server = answered(protocol, about)
        other = answered(protocol, second)
        assert not server.proceed()
        sums = server.sums()
        _require_only_the_helpers_noise(protocol, sums)
        with pytest.raises(TooFewAnswersError, match="answered-before"):
            other.proceed()
        run_2 = answered(protocol, about_of(BOARD, run="run 2"))
        identity = process.identity
        process.end(signal.SIGKILL)
        with pytest.raises(TooFewAnswersError, match="unreachable"):
            run_2.proceed()

    with running(folder, *flags) as process, linked(folder, process.port) as link:
        assert process.identity == identity
        protocol = protocol_for(2).pinned(bytes.fromhex(identity)).helped_by(link.about(BOARD))
        for which in (about, second):
            with pytest.raises(TooFewAnswersError, match="answered-before") as lost:
                protocol.open(which, REQUESTS, ("a", "b"), n_items=N_ITEMS)
            assert lost.value.given
        with pytest.raises(RefusedError) as forgotten:
            link.ask(Total(about_of(BOARD, run="run 2"), ("a", "b")))
        assert forgotten.value.code is Refusal.NO_SESSION
        assert not answered(protocol, about_of(BOARD, run="run 3")).proceed()
        assert process.end(signal.SIGTERM) == 0

    record = AnsweredRounds(folder / "state")
    assert [row.run for row in record.rows()] == ["a run", "run 3"]
    record.close()


def _require_only_the_helpers_noise(protocol: TwoServer, sums: object) -> None:
    shifts = protocol.packing(REQUESTS).shifts
    for request in REQUESTS:
        exact = coarse_sums(rows_of(BOARD, 0, 2), REQUESTS, shifts)[request.name] << shifts[request.name]
        found = sums.block([request], 0, request.release.rows)[request.name]  # type: ignore[attr-defined]
        off = (found - exact) / request.release.column_stddev()
        assert 0.5 < np.sqrt(np.mean(off**2)) < 1.5


def test_only_the_leader_and_only_what_is_well_formed_is_answered(folder: Path) -> None:
    with running(folder, "--token", str(folder / "token")) as process:
        for token in (None, "wrong-token"):
            with linked(folder, process.port, token=token) as link, pytest.raises(RefusedError) as refused:
                link.ask(Total(b"", ()))
            assert refused.value.code is Refusal.NOT_ALLOWED
        with linked(folder, process.port) as link:
            whole = packed(Total(b"", ("a",)))
            taken = packed(Take(b"", "a", (2, 2), b"abc", b""))
            wrong = {"Begin": whole, "Take": taken, "Total": packed(Begin(b"", {}, b""))}
            for method, other in wrong.items():
                for garbage in (b"", whole[:-1], other, os.urandom(200)):
                    call = link._channel.unary_unary(f"/{SERVICE}/{method}")
                    with pytest.raises(grpc.RpcError) as failed:
                        call(garbage, metadata=link._metadata)
                    assert (failed.value.code(), failed.value.details()) == (REFUSED, "malformed")
        stranger = folder / "stranger"
        make_authority(stranger / "authority.pem", stranger / "authority.key", name="stranger")
        (stranger / "token").write_text("ab" * 32)
        (stranger / "token").chmod(0o600)
        with linked(stranger, process.port, seconds=3.0) as link, pytest.raises(RefusedError) as refused:
            link.ask(Total(b"", ()))
        assert refused.value.code is Refusal.UNREACHABLE
        second = subprocess.run(
            command(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 3
        assert "another process" in second.stderr
        assert process.end(signal.SIGTERM, to_another_thread=True) == 0
