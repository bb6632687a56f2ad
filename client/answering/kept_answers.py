"""The last answer to each run, kept for a time: a server that lost it gets the same bytes, not a new one."""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fedboard.client.private_files import make_private_folder, write_private
from fedboard.common.keys.validity import Clock
from fedboard.common.rounds.question import BookedRound, Question

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

    def keep(self, question: Question, answer: bytes) -> None:
        """Keep it beside the answers to earlier rounds of this run; durable on return."""
        made = int(self._clock()).to_bytes(_TIME, "little")
        content = made + self._identity(question) + hashlib.sha256(answer).digest() + answer
        make_private_folder(self._folder)
        self.drop(question)  # one that was never booked
        write_private(self._place(question), content)

    def has(self, question: Question) -> bool:
        """Whether an answer to this round may be here."""
        return self._place(question).exists()

    def recall(self, question: Question) -> bytes | None:
        """The answer to this very question; None where there is none, its time is over or it is damaged."""
        try:
            content = self._place(question).read_bytes()
        except FileNotFoundError:
            return None
        answer = content[_HEADER:]
        identity, digest = content[_TIME : _TIME + _DIGEST], content[_TIME + _DIGEST : _HEADER]
        whole = identity == self._identity(question) and digest == hashlib.sha256(answer).digest()
        return answer if whole and self._lasts(content) else None

    def drop(self, question: Question | BookedRound) -> None:
        """Overwrite and delete what is kept of this round, if anything is."""
        _erase([self._place(question)])

    def drop_earlier(self, question: Question) -> None:
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

    def _place(self, question: Question | BookedRound) -> Path:
        return self._folder / f"{_name(question.run)}-{question.round}{_SUFFIX}"

    def _identity(self, question: Question) -> bytes:
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
