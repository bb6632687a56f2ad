"""The exit codes of every command: one table, which ``fedboard --help-all`` and the guide show."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script may go by, without reading a word."""

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        """A code, with its meaning in a line."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    meaning: str
    DONE = 0, "done; what was checked holds and is private"
    FAILED = 1, "a check failed, or the work could not be done"
    """A full disk, a server that is away, too few answers."""
    INPUT = 2, "a flag, a file or a value that cannot be used as it is"
    """Out of range, or a missing extra."""
    REFUSED = 3, "refused: it would break or blur a privacy guarantee"
    """Nothing was released."""
    WORKER_DIED = 4, "a worker process died; go on with --resume"
    """The run stopped at its last checkpoint."""
    NOT_PRIVATE = 5, "everything checked holds, but the noise is a simulation's: not private"
    """Whoever has the seed subtracts it."""
    ROUNDS_LOST = 6, "the training is over, and lost more of its rounds than it may"
    """Than ``rounds.most_lost`` allows."""
    BUG = 70, "a bug in fedboard"
    """EX_SOFTWARE."""
    INTERRUPTED = 130, "interrupted"
    """Ctrl-C or a polite signal; the message says how to go on."""


def table() -> str:
    """The codes and their meanings, a line each, as ``--help-all`` shows them."""
    return "\n".join(("\b", "Exit codes:", *(f"  {code.value:>3}  {code.meaning}" for code in ExitCode)))
