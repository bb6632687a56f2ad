"""How a failure reaches the person at the keyboard: one sentence and an exit code, a traceback only on request."""

import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.errors import FedboardError

_EXTRAS = frozenset(
    {
        "cryptography",
        "dp_accounting",
        "flwr",
        "httpx",
        "cvxpy",
        "jinja2",
        "llvmlite",
        "markupsafe",
        "matplotlib",
        "numba",
        "prometheus_client",
        "pyarrow",
        "rich",
        "uvicorn",
    }
)


class InterruptedRunError(FedboardError):
    """Ctrl-C; the message says how to go on."""

    exit_code: ClassVar[int] = ExitCode.INTERRUPTED


def guarded(command: Callable[[], object], *, debug: bool) -> int:
    """Run a command line; its exit code.

    Every failure becomes one sentence on stderr. With ``debug`` the traceback comes first.
    """
    try:
        with _termination_as_interrupt():
            code = command()
    except BaseException as error:
        if debug and not isinstance(error, click.exceptions.Exit | SystemExit):
            traceback.print_exc()
        return _told(error)
    return code if isinstance(code, int) else 0


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat the polite signals of service managers and closed terminals like Ctrl-C: clean up, say how to go on."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(error: BaseException) -> int:
    match error:
        case click.exceptions.Exit():
            return int(error.exit_code)
        case SystemExit():
            return error.code if isinstance(error.code, int) else 1
        case click.ClickException():
            error.show()
            return error.exit_code
        case FedboardError():
            return _say(str(error), error.exit_code)
        case click.Abort() | KeyboardInterrupt():
            return _say("interrupted", InterruptedRunError.exit_code)
        case BrokenPipeError():
            return _reader_left()
        case ModuleNotFoundError() if (error.name or "").partition(".")[0] in _EXTRAS:
            return _say("this needs fedboard[all]: pip install 'fedboard[all]'", ExitCode.INPUT)
        case OSError() if error.strerror:
            place = "" if error.filename is None else f"{error.filename}: "
            return _say(f"{place}{error.strerror}", FedboardError.exit_code)
    told = f"unexpected {type(error).__name__}: {error}; this is a bug, run again with --debug to see where"
    return _say(" ".join(told.split()), ExitCode.BUG)


def _say(sentence: str, exit_code: int) -> int:
    click.echo(f"fedboard: {sentence}", err=True)
    return exit_code


def _reader_left() -> int:
    """Whoever read our output closed it (``| head``): no error to report, but nothing more may be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


@contextmanager
def resumable(command: str, place: Path, record: str) -> Iterator[None]:
    """Turn Ctrl-C into a sentence that says how to go on, once there is something to go on with.

    Args:
        command: of ``fedboard``.
        place: its directory.
        record: the file there that ``--resume`` reads.

    Raises:
        InterruptedRunError: Ctrl-C, with the command that goes on.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not (place / record).exists():
            raise
        again = f"fedboard {command} --out {shlex.quote(str(place))} --resume"
        raise InterruptedRunError(f"interrupted; go on with: {again}") from None
