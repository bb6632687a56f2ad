"""The errors that fedboard raises on purpose, each with the exit code that the command line gives it."""

from typing import ClassVar


class FedboardError(Exception):
    """Base of all errors that carry one clear sentence for the person at the keyboard."""

    exit_code: ClassVar[int] = 1
    """What a command that meets it ends with."""


class InputError(FedboardError):
    """Something that was given (a file, a flag, a configuration) is not usable as it is."""

    exit_code: ClassVar[int] = 2


class SettingError(InputError, ValueError):
    """A setting of a run is out of its range, or does not go with another one.

    Also a ``ValueError``, as what reads a file into sections expects of a section that refuses itself.
    """


class PrivacyError(FedboardError):
    """Going on would break or blur a privacy guarantee; nothing was released."""

    exit_code: ClassVar[int] = 3


class OutOfRangeError(InputError, PrivacyError):
    """A number of a guarantee (an epsilon, a delta, a noise multiplier) that none can have.

    It is both: not usable as it was given, and no guarantee could be stated with it. Whoever types it is told what
    she typed, with the exit code of input, wherever it is noticed.
    """

    exit_code: ClassVar[int] = InputError.exit_code


class UnsafeSettingError(SettingError, PrivacyError):
    """A setting of a run goes with secure noise in no way that keeps its guarantee."""

    exit_code: ClassVar[int] = PrivacyError.exit_code


class BudgetExceededError(PrivacyError):
    """A release was refused because the budget does not cover it; nothing was released."""


class StorageError(FedboardError):
    """The disk would not take or give a record; nothing of what it was about was released."""


class TooFewAnswersError(FedboardError):
    """Fewer clients than the quorum answered in time; nothing was released."""

    def __init__(self, text: str, *, given: bool = False, asked: bool = True) -> None:
        """Say it.

        Args:
            text: one sentence.
            given: whether clients may have given their part already, so that the round is paid for.
            asked: whether anybody was asked for a part; if not, the round costs nobody anything and can begin
                again at any time.
        """
        super().__init__(text)
        self.given, self.asked = given, asked


class WorkerDiedError(FedboardError):
    """A worker process ended before its part was done; the run stops at its last checkpoint."""

    exit_code: ClassVar[int] = 4


class RoundsLostError(FedboardError):
    """A training is over, and lost a larger share of its rounds than it may."""

    exit_code: ClassVar[int] = 6
