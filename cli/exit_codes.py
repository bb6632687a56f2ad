"""The exit codes of every command: one table, which ``fedboard --help`` and the guide show."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script may go by, without reading a word."""

    DONE = 0
    """What was asked for is done; what was checked holds, and its noise is private."""
    FAILED = 1
    """A check failed, or the work could not be done: a full disk, a server that is away, too few answers."""
    INPUT = 2
    """Something that was given is not usable as it is: a flag, a file, a value out of range, a missing extra."""
    REFUSED = 3
    """Going on would break or blur a privacy guarantee; nothing was released."""
    WORKER_DIED = 4
    """A worker process ended; the run stopped at its last checkpoint and can be resumed."""
    NOT_PRIVATE = 5
    """Everything that was checked holds, and the noise is a simulation's: whoever has the seed subtracts it."""
    ROUNDS_LOST = 6
    """The training is over, and lost a larger share of its rounds than ``rounds.most_lost`` allows."""
    BUG = 70
    """Not foreseen: a bug (EX_SOFTWARE)."""
    INTERRUPTED = 130
    """Ctrl-C or a polite signal; the message says how to go on."""


MEANINGS = {
    ExitCode.DONE: "done; what was checked holds and is private",
    ExitCode.FAILED: "a check failed, or the work could not be done",
    ExitCode.INPUT: "a flag, a file or a value that cannot be used as it is",
    ExitCode.REFUSED: "refused: it would break or blur a privacy guarantee",
    ExitCode.WORKER_DIED: "a worker process died; go on with --resume",
    ExitCode.NOT_PRIVATE: "everything checked holds, but the noise is a simulation's: not private",
    ExitCode.ROUNDS_LOST: "the training is over, and lost more of its rounds than it may",
    ExitCode.BUG: "a bug in fedboard",
    ExitCode.INTERRUPTED: "interrupted",
}
"""In a line each, for help texts."""


def table() -> str:
    """The codes and their meanings, a line each, as ``--help`` shows them."""
    lines = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(("\b", "Exit codes:", *lines))
