"""The last answer to each run, kept on the device: a server that lost it gets the same bytes, not a new one."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from fedboard.client.private_files import make_private_folder, write_private
from fedboard.common.rounds.question import Question

_DIGEST = hashlib.sha256().digest_size
_SUFFIX = ".answer"


class KeptAnswers:
    """Answers in a folder, one file a round. Private: an answer holds rows of the ratings.

    Not guaranteed: that an answer is booked; the ledger says so.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made when something is kept."""
        self._folder = folder

    def keep(self, question: Question, answer: bytes) -> None:
        """Keep it beside the answers to earlier rounds of this run; durable on return."""
        content = _identity(question) + hashlib.sha256(answer).digest() + answer
        make_private_folder(self._folder)
        write_private(self._place(question), content)

    def recall(self, question: Question) -> bytes | None:
        """The answer to this very question; None where there is none or it is damaged."""
        try:
            content = self._place(question).read_bytes()
        except FileNotFoundError:
            return None
        answer = content[2 * _DIGEST :]
        whole = content[:_DIGEST] == _identity(question)
        return answer if whole and content[_DIGEST : 2 * _DIGEST] == hashlib.sha256(answer).digest() else None

    def drop(self, question: Question) -> None:
        """Overwrite and delete what is kept of this round, if anything is."""
        place = self._place(question)
        _erase([place] if place.exists() else [])

    def drop_earlier(self, question: Question) -> None:
        """Overwrite and delete what is kept of this run's other rounds."""
        own = self._place(question)
        _erase(place for place in self._folder.glob(f"{_name(question.run)}*") if place != own)

    def forget(self) -> int:
        """Overwrite and delete every kept answer; how many there were."""
        return _erase(list(self._folder.glob(f"*{_SUFFIX}*")))

    def _place(self, question: Question) -> Path:
        return self._folder / f"{_name(question.run)}-{question.round}{_SUFFIX}"


def _erase(places: Iterable[Path]) -> int:
    number = 0
    for place in places:
        with place.open("r+b") as stream:
            stream.write(bytes(place.stat().st_size))
            stream.flush()
            os.fsync(stream.fileno())
        place.unlink()
        number += 1
    return number


def _name(run: str) -> str:
    return hashlib.sha256(run.encode(errors="surrogatepass")).hexdigest()[:32]


def _identity(question: Question) -> bytes:
    asked = [question.run, question.round, question.protocol, question.form, question.board.digest]
    return hashlib.sha256(json.dumps(asked).encode()).digest()


__all__ = ["KeptAnswers"]
