"""What a device remembers beside its ledger, in small private files: rounds that are booked, refusals, questions,
lists of devices, and the last answers, to be sent again.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import msgspec

from fedboard.client.private_files import make_private_folder, write_private
from fedboard.common.boards.validity import Clock
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError

if TYPE_CHECKING:  # a reader looks at what is kept here, and has neither questions nor cryptography
    from fedboard.common.board import Board
    from fedboard.common.boards.roster import Roster
    from fedboard.common.messages.question import BookedRound, Question
    from fedboard.common.queries.statement import QuestionStatement

_Held = TypeVar("_Held")
_MOST_RUNS: Final = 64
_NOTHING: Final = (-1, b"")


class _SmallFile(Generic[_Held]):
    """Something that is read once and written whole, durably, in JSON. Private."""

    KIND: ClassVar[Any]
    """What is in the file."""
    DAMAGED: ClassVar[str]
    """What to say of a file that cannot be read; ``{}`` is for the reason."""

    def __init__(self, path: Path) -> None:
        """Read what was noted; a file that is not there holds nothing.

        Raises:
            InputError: the file is damaged.
        """
        self._path = path
        try:
            self._held: _Held = msgspec.json.decode(path.read_bytes(), type=self.KIND)
        except FileNotFoundError:
            self._held = msgspec.json.decode(b"{}", type=self.KIND)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {self.DAMAGED.format(error)}") from None

    def _write(self) -> None:
        write_private(self._path, msgspec.json.encode(self._held))


class BookedRounds(_SmallFile[dict[str, tuple[int, bytes]]]):
    """The last booked round of each run, as its server has signed it, in a small file. Without it a server that was
    put back to an older state could ask a round again, and draw other noise on the answers that were kept.
    """

    KIND = dict[str, tuple[int, bytes]]
    DAMAGED = (
        "the rounds that servers have booked are damaged ({}); delete the file only where you know that no server "
        "was put back to an older state"
    )

    def newest(self, run: str) -> int:
        """The last round of a run that is noted; -1: none."""
        return self._held.get(run, _NOTHING)[0]

    def hold(self, booked: "BookedRound", signed: bytes) -> bytes:
        """Note a round, unless a later one is; durable on return.

        Args:
            booked: what was signed.
            signed: as it came.

        Returns:
            What was held before, as it came; empty for nothing.
        """
        newest, before = self._held.get(booked.run, _NOTHING)
        if booked.round > newest:
            others = [(run, held) for run, held in self._held.items() if run != booked.run]
            self._held = dict([*others, (booked.run, (booked.round, signed))][-_MOST_RUNS:])
            self._write()
        return before


class RefusalCounts(_SmallFile[dict[Refusal, int]]):
    """Counts in a small file; codes alone, so that no peer can make it grow."""

    KIND = dict[Refusal, int]
    DAMAGED = "the counts of refusals are damaged ({}); delete the file, it holds nothing else"

    def add(self, code: Refusal) -> None:
        """Count one more; durable on return."""
        self._held[code] = self._held.get(code, 0) + 1
        self._write()

    def by_code(self) -> Mapping[Refusal, int]:
        """Code -> number of refusals."""
        return dict(sorted(self._held.items()))


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


class AskedQuestions(_SmallFile[dict[str, AskedQuestion]]):
    """A small file: question by run. Private: it tells in what she took part."""

    KIND = dict[str, AskedQuestion]
    DAMAGED = "the list of questions is damaged ({}); delete the file, what was answered stands in the ledger"

    def __init__(self, path: Path, *, clock: Clock = time.time) -> None:
        """Read it; a file that is not there holds none.

        Args:
            path: of this device alone.
            clock: of this machine.

        Raises:
            InputError: the file is damaged.
        """
        super().__init__(path)
        self._clock = clock

    def note(
        self, run: str, statement: "QuestionStatement", board: "Board", *, answered: bool = False
    ) -> None:
        """Take note that this was asked, or answered; durable on return.

        Args:
            run: a name that can be shown.
            statement: what is asked.
            board: that states it; ratings of items beyond its catalogue do not count.
            answered: whether a part of her leaves for it.
        """
        known = self._held.get(run)
        if known is not None and (known.answered or not answered):
            return
        self._held[run] = AskedQuestion(
            run=run,
            title=statement.title,
            sentence=f"{statement.sentence}, over a catalogue of {board.catalogue.n_items} items",
            digest=board.digest if known is None else known.digest,
            asked=self._clock() if known is None else known.asked,
            answered=answered,
        )
        self._held = dict(list(self._held.items())[-MOST:])
        self._write()

    def all(self) -> list[AskedQuestion]:
        """The newest, oldest first."""
        return list(self._held.values())


class _Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int
    digest: str


class NewestRoster(_SmallFile[dict[str, _Seen]]):
    """Numbers and digests in a small file. Without it a server could go back to a list that still names a device
    which was taken off, or have its authority sign two lists of one number for two halves of a fleet.
    """

    KIND = dict[str, _Seen]
    DAMAGED = (
        "the numbers of lists of devices are damaged ({}); delete the file only where you know that your fleet's "
        "list is the newest one"
    )

    def admit(self, roster: "Roster") -> None:
        """Take note of a list; durable on return.

        Raises:
            RefusedError: ``other-roster``: a newer one was seen, or another one of the same number.
        """
        found, seen = _Seen(roster.number, roster.digest.hex()), self._held.get(roster.fleet)
        if seen == found:
            return
        if seen is not None and found.number <= seen.number:
            raise RefusedError(Refusal.OTHER_ROSTER)
        self._held[roster.fleet] = found
        self._write()


DEFAULT_SECONDS = 86_400.0
"""How long an answer is kept at most, unless a person says otherwise."""
_DIGEST = hashlib.sha256().digest_size
_TIME = 8
_HEADER = _TIME + 2 * _DIGEST
_SUFFIX = ".answer"


class KeptAnswers:
    """Answers in a folder, one file a round. Private: an answer holds rows of the ratings.

    Guarantee: an answer is found only for the question of the very server that it was made for, and only for the
    stated time after it was made. What is no longer to be found is overwritten and deleted by ``expire``.
    Not guaranteed: that an answer is booked; the ledger says so.
    """

    def __init__(
        self,
        folder: Path,
        *,
        server: str = "",
        seconds: float = DEFAULT_SECONDS,
        clock: Clock = time.time,
    ) -> None:
        """Use a folder, which is made when something is kept.

        Args:
            folder: of this device alone.
            server: name of the key whose questions are answered, see ``Asker.id``.
            seconds: how long an answer is kept at most.
            clock: of this machine; where it goes back, what was kept counts as over.
        """
        self._folder, self._server, self._seconds, self._clock = folder, server, seconds, clock

    def keep(self, question: "Question", answer: bytes) -> None:
        """Keep it beside the answers to earlier rounds of this run; durable on return."""
        made = int(self._clock()).to_bytes(_TIME, "little")
        content = made + self._identity(question) + hashlib.sha256(answer).digest() + answer
        make_private_folder(self._folder)
        self.drop(question)  # one that was never booked
        write_private(self._place(question), content)

    def has(self, question: "Question") -> bool:
        """Whether an answer to this round may be here."""
        return self._place(question).exists()

    def recall(self, question: "Question") -> bytes | None:
        """The answer to this very question; None where there is none, its time is over or it is damaged."""
        try:
            content = self._place(question).read_bytes()
        except FileNotFoundError:
            return None
        answer = content[_HEADER:]
        identity, digest = content[_TIME : _TIME + _DIGEST], content[_TIME + _DIGEST : _HEADER]
        whole = identity == self._identity(question) and digest == hashlib.sha256(answer).digest()
        return answer if whole and self._lasts(content) else None

    def drop(self, question: "Question | BookedRound") -> None:
        """Overwrite and delete what is kept of this round, if anything is."""
        _erase([self._place(question)])

    def drop_earlier(self, question: "Question") -> None:
        """Overwrite and delete what is kept of this run's other rounds."""
        own = self._place(question)
        _erase(place for place in self._folder.glob(f"{_name(question.run)}*") if place != own)

    def expire(self) -> int:
        """Overwrite and delete every answer whose time is over, and what was cut short; how many there were."""
        return _erase([place for place in self._everything() if not self._lasts(_first(place, _TIME))])

    def forget(self) -> int:
        """Overwrite and delete every kept answer; how many there were."""
        return _erase(self._everything())

    def _everything(self) -> list[Path]:
        return list(self._folder.glob(f"*{_SUFFIX}*"))

    def _lasts(self, content: bytes) -> bool:
        made = int.from_bytes(content[:_TIME], "little")
        return len(content) >= _TIME and 0 <= self._clock() - made <= self._seconds

    def _place(self, question: "Question | BookedRound") -> Path:
        return self._folder / f"{_name(question.run)}-{question.round}{_SUFFIX}"

    def _identity(self, question: "Question") -> bytes:
        asked = [self._server, question.run, question.round, question.protocol, question.form]
        return hashlib.sha256(json.dumps([*asked, question.board.digest]).encode()).digest()


def _erase(places: Iterable[Path]) -> int:
    number = 0
    for place in places:
        with suppress(FileNotFoundError):  # another command may be erasing too
            with place.open("r+b") as stream:
                stream.write(bytes(os.fstat(stream.fileno()).st_size))
                stream.flush()
                os.fsync(stream.fileno())
            place.unlink()
            number += 1
    return number


def _first(place: Path, n_bytes: int) -> bytes:
    with suppress(FileNotFoundError), place.open("rb") as stream:
        return stream.read(n_bytes)
    return b""


def _name(run: str) -> str:
    return hashlib.sha256(run.encode(errors="surrogatepass")).hexdigest()[:32]
