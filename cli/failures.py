"""How a failure reaches the person at the keyboard: one sentence and an exit code, a traceback only on request."""

import os
import re
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

from fedboard.cli.documents import error_document
from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.text import bad, colour_wanted
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import FedboardError

_EXTRAS = frozenset(
    {
        "cryptography",
        "dp_accounting",
        "flwr",
        "h11",
        "duckdb",
        "cvxpy",
        "jinja2",
        "llvmlite",
        "markupsafe",
        "numba",
        "optuna",
        "prometheus_client",
        "pyarrow",
        "ray",
        "rich",
        "scipy",
        "threadpoolctl",
    }
)


_HELP_ASKED: tuple[type[click.ClickException], ...] = tuple(
    kind for kind in [getattr(click.exceptions, "NoArgsIsHelpError", None)] if kind is not None
)
"""A group by itself, which newer versions of click tell as an error: its help says what there is."""


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
        case click.ClickException() if isinstance(error, _HELP_ASKED):
            error.show()
            return error.exit_code
        case click.ClickException():
            return _say(_mistake(error), error.exit_code)
        case FedboardError():
            return _say(str(error), error.exit_code)
        case click.Abort() | KeyboardInterrupt():
            return _say("interrupted", InterruptedRunError.exit_code)
        case BrokenPipeError():
            return _reader_left()
        case ModuleNotFoundError() if (error.name or "").partition(".")[0] in _EXTRAS:
            return _say("this needs more: run pip install '.[all]' in fedboard's checkout", ExitCode.INPUT)
        case OSError() if error.strerror:
            place = "" if error.filename is None else f"{error.filename}: "
            return _say(f"{place}{error.strerror}", FedboardError.exit_code)
    told = f"unexpected {type(error).__name__}: {error}; this is a bug, run again with --debug to see where"
    return _say(" ".join(told.split()), ExitCode.BUG)


def _mistake(error: click.ClickException) -> str:
    """What click found wrong in a command line, in our words and with the place that says how it is meant."""
    told = _choice(error) or error.format_message().rstrip(".")
    told = f"{told[:1].lower()}{told[1:]}".replace(". Did you mean", "; did you mean").removesuffix("?")
    context = getattr(error, "ctx", None)
    meant = "?" if "did you mean" in told else ""
    return told + meant if context is None else f"{told}{meant} (see {context.command_path} --help)"


def _choice(error: click.ClickException) -> str:
    """Of a value that is none of a few, with the nearest one; empty for other errors."""
    param = getattr(error, "param", None)
    kind = getattr(param, "type", None)
    wrong = re.match(r"'(.*?)' is not one of", getattr(error, "message", ""))
    if wrong is None or param is None or not isinstance(kind, click.Choice):
        return ""
    known = [str(choice) for choice in kind.choices]
    return (
        f"{param.opts[0]} must be one of {', '.join(known)}, got {wrong[1]!r}{did_you_mean(wrong[1], known)}"
    )


def _say(sentence: str, exit_code: int) -> int:
    click.echo(f"{bad('fedboard:')} {sentence}", err=True, color=colour_wanted())
    error_document(sentence, exit_code)
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
