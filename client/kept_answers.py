"""The last answer to each run, kept on the device: a server that lost it gets the same bytes, not a new one."""

import hashlib
import json
import os
from pathlib import Path

from fedboard.common.board import write_atomically
from fedboard.common.wire.question import Question

_DIGEST = hashlib.sha256().digest_size
_SUFFIX = ".answer"


class KeptAnswers:
    """Answers in a folder, one file a run. Private: an answer holds rows of the ratings.

    Not guaranteed: that an answer is booked; the ledger says so.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made when something is kept; its own folder must exist by then."""
        self._folder = folder

    def keep(self, question: Question, answer: bytes) -> None:
        """Replace what is kept of this run; durable on return."""
        content = _identity(question) + hashlib.sha256(answer).digest() + answer
        place = self._place(question.run)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(_part(place), os.O_CREAT | os.O_WRONLY, 0o600))
        write_atomically(place, content)

    def recall(self, question: Question) -> bytes | None:
        """The answer to this very question; None where there is none or it is damaged."""
        try:
            content = self._place(question.run).read_bytes()
        except FileNotFoundError:
            return None
        answer = content[2 * _DIGEST :]
        whole = content[:_DIGEST] == _identity(question)
        return answer if whole and content[_DIGEST : 2 * _DIGEST] == hashlib.sha256(answer).digest() else None

    def forget(self) -> int:
        """Overwrite and delete every kept answer; how many there were."""
        found = list(self._folder.glob(f"*{_SUFFIX}*"))
        for place in found:
            with place.open("r+b") as stream:
                stream.write(bytes(place.stat().st_size))
                stream.flush()
                os.fsync(stream.fileno())
            place.unlink()
        return len(found)

    def _place(self, run: str) -> Path:
        return (
            self._folder / f"{hashlib.sha256(run.encode(errors='surrogatepass')).hexdigest()[:32]}{_SUFFIX}"
        )


def _part(place: Path) -> Path:
    return place.with_name(place.name + ".part")


def _identity(question: Question) -> bytes:
    asked = [question.run, question.round, question.protocol, question.form, question.board.digest]
    return hashlib.sha256(json.dumps(asked).encode()).digest()


__all__ = ["KeptAnswers"]
