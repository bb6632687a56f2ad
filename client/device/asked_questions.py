"""The questions that a device was asked, in words: for its owner, who decides which of them she answers."""

import time
from pathlib import Path

import msgspec

from fedboard.client.private_files import write_private
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.keys.validity import Clock
from fedboard.common.questions.statement import QuestionStatement

MOST = 50
"""Kept, the newest of them: whoever asks on and on fills no disk. The ledger has what was answered, for ever."""


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question as it was first asked."""

    run: str
    title: str
    """What a policy names to allow it."""
    sentence: str
    """All of it: bounds, possible answers, rounds, epsilon."""
    digest: str
    """Of the board that it came with: people who compare it know whether they were asked the same."""
    asked: float
    """When, seconds since 1970 UTC."""
    answered: bool = False


class AskedQuestions:
    """A small file. Private: it tells in what she took part."""

    def __init__(self, path: Path, *, clock: Clock = time.time) -> None:
        """Read it; a file that is not there holds none.

        Args:
            path: of this device alone.
            clock: of this machine.

        Raises:
            InputError: the file is damaged.
        """
        self._path, self._clock = path, clock
        try:
            found = msgspec.json.decode(path.read_bytes(), type=list[AskedQuestion])
        except FileNotFoundError:
            found = []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: the list of questions is damaged ({error}); delete the file, what was answered stands in "
                "the ledger"
            ) from None
        self._by_run = {one.run: one for one in found}

    def note(self, run: str, statement: QuestionStatement, board: Board, *, answered: bool = False) -> None:
        """Take note that this was asked, or answered; durable on return.

        Args:
            run: a name that can be shown.
            statement: what is asked.
            board: that states it; ratings of items beyond its catalogue do not count.
            answered: whether a part of her leaves for it.
        """
        known = self._by_run.get(run)
        if known is not None and (known.answered or not answered):
            return
        self._by_run[run] = AskedQuestion(
            run=run,
            title=statement.title,
            sentence=f"{statement.sentence}, over a catalogue of {board.catalogue.n_items} items",
            digest=board.digest if known is None else known.digest,
            asked=self._clock() if known is None else known.asked,
            answered=answered,
        )
        self._by_run = dict(list(self._by_run.items())[-MOST:])
        write_private(self._path, msgspec.json.encode(self.all()))

    def all(self) -> list[AskedQuestion]:
        """The newest, oldest first."""
        return list(self._by_run.values())
