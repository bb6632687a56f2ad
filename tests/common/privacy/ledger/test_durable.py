"""What happens to a ledger when the storage fails it: full, read-only, shared, linked, killed."""

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import pytest

from fedboard.common.errors import InputError, PrivacyError, StorageError
from fedboard.common.privacy.ledger.chain_rows import connect, lock_writer
from fedboard.common.privacy.ledger.ledger import Ledger


def test_commits_are_synced_before_they_return(tmp_path):
    connection = connect(tmp_path / "file")

    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    connection.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to watch the system calls")
def test_booking_syncs_the_log_before_it_returns(tmp_path, make_event):
    script = (
        "import json, os, sys\n"
        "from fedboard.common.privacy.ledger.ledger import Budget, Ledger\n"
        "ledger = Ledger.create(sys.argv[1], Budget(epsilon=5, delta=1e-5, adjacency='add-remove'))\n"
        "event = json.load(sys.stdin)\n"
        "os.write(2, b'BOOKING'); ledger.book(event); os.write(2, b'BOOKED'); os._exit(0)\n"
    )
    event = json.dumps(make_event()).encode()
    path, log = tmp_path / "ledger.sqlite", tmp_path / "calls"
    calls = "trace=write,fdatasync,fsync,pwrite64"
    command = ["strace", "-y", "-f", "-o", log, "-e", calls, sys.executable, "-c", script, path]

    done = subprocess.run(command, input=event, capture_output=True, check=False)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace is not allowed here")

    assert done.returncode == 0, done.stderr
    traced = log.read_text()
    during = traced[traced.index("BOOKING") : traced.index('"BOOKED"')].splitlines()
    written = [n for n, line in enumerate(during) if "pwrite64" in line and "ledger.sqlite-wal" in line]
    synced = [n for n, line in enumerate(during) if "sync(" in line and "ledger.sqlite-wal" in line]
    folder = [n for n, line in enumerate(during) if "sync(" in line and f"<{tmp_path}>" in line]
    assert written, during
    assert max(written) < max(synced), during
    assert folder, during  # the name of the new log


def test_a_full_disk_books_nothing_says_so_and_goes_on_when_there_is_room(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as ledger:
        for number in range(3):
            ledger.book(make_event(name=f"early-{number}", noise_multiplier=2000.0))
        head, spent = ledger.head, ledger.spent()
        connection = ledger._chain._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own report of a full disk

        with pytest.raises(StorageError, match=r"ledger\.sqlite: nothing was booked.*disk is full.*--resume"):
            ledger.book_all(make_event(name=f"late-{n}", noise_multiplier=2000.0) for n in range(100))

        assert (ledger.head, ledger.spent()) == (head, spent)
        connection.execute("PRAGMA max_page_count = 100000")
        ledger.book(make_event(name="with room", noise_multiplier=2000.0))
    with Ledger.open(path) as again:
        assert again.events()[-1]["name"] == "with room"


def _until_the_quota(path, budget, event, pipe):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ledger = Ledger.create(path, budget)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))
    booked = 0
    try:
        while True:
            ledger.book({**event, "name": f"items-{booked}", "covers": "x" * 2000})
            booked += 1
    except StorageError as error:
        pipe.send((booked, str(error), len(ledger.events())))
    os._exit(0)


def test_a_write_that_the_system_refuses_books_nothing(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    receiver, sender = get_context("fork").Pipe(duplex=False)
    event = make_event(noise_multiplier=2000.0)
    child = get_context("fork").Process(target=_until_the_quota, args=(path, budget, event, sender))

    child.start()
    booked, message, seen = receiver.recv()
    child.join()

    assert booked == seen > 0
    assert "nothing was booked, so nothing is released: the disk is full or failed" in message
    with Ledger.open(path) as ledger:
        assert len(ledger.events()) == booked


def _as_nobody(path, event, pipe):
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        with Ledger.open(path, read_only=True) as ledger:
            pipe.send(len(ledger.events()))
        Ledger.open(path).book(event)
    except Exception as error:
        pipe.send(error)
    os._exit(0)


def test_a_read_only_ledger_can_be_looked_at_but_not_booked_in(budget, make_event):
    with tempfile.TemporaryDirectory(prefix="fedboard-") as name:
        folder = Path(name)
        path = folder / "ledger.sqlite"
        with Ledger.create(path, budget) as ledger:
            ledger.book(make_event())
        path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        folder.chmod(0o555)
        receiver, sender = get_context("fork").Pipe(duplex=False)
        arguments = (path, make_event(name="late"), sender)
        child = get_context("fork").Process(target=_as_nobody, args=arguments)

        child.start()
        seen, error = receiver.recv(), receiver.recv()
        child.join()
        folder.chmod(0o755)

        assert seen == 1
        assert isinstance(error, InputError)
        assert "cannot be written there" in str(error)


def test_the_lock_holds_whatever_name_leads_to_the_file(tmp_path, budget):
    path, alias = tmp_path / "ledger.sqlite", tmp_path / "alias.sqlite"
    alias.symlink_to(path)
    with Ledger.create(path, budget), pytest.raises(PrivacyError, match="another process is writing"):
        Ledger.open(alias)

    os.link(path, tmp_path / "twin.sqlite")
    with pytest.raises(InputError, match="second name"):
        Ledger.open(path)


def test_a_lock_left_behind_by_a_dead_process_is_nobodys(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Path(f"{path}.lock").write_text("4194999")

    with contextlib.closing(lock_writer(path)):
        assert Path(f"{path}.lock").read_text() == str(os.getpid())


def test_a_failure_to_tidy_up_does_not_undo_a_booking(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as ledger:
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM events").fetchall()  # keeps the log from being emptied

        ledger.book(make_event())

        assert len(ledger.events()) == 1
        assert Path(f"{path}-wal").stat().st_size > 0
        reader.close()
        ledger.book(make_event(name="second"))
        assert Path(f"{path}-wal").stat().st_size == 0


def test_a_damaged_file_is_named_as_such(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as ledger:
        ledger.book(make_event())
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(content)

    with pytest.raises((PrivacyError, InputError), match=r"ledger\.sqlite"):
        Ledger.open(path)
