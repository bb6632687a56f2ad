"""Which rounds a helper has answered and what noise it added: durable before the answer leaves."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.chain_rows import Row
from fedboard.common.privacy.ledger.durable import lock_writer
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.wire.refusals import Refusal, RefusedError

FILE_NAME = "answered-rounds.db"
_KIND = "helper"


class AnsweredRounds:
    """One row for each round, chained as in a ledger; a round of a run is in it at most once, for ever.

    Guarantee: when ``add`` returns the row is on disk. A second process on the same folder is refused.
    """

    def __init__(self, folder: Path) -> None:
        """Open the record, or start it.

        Args:
            folder: made if it is not there.

        Raises:
            InputError: the folder cannot be used.
            PrivacyError: another process uses it, or the record was tampered with.
            StorageError: it cannot be read or written.
        """
        path = folder / FILE_NAME
        with ExitStack() as on_failure:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: no folder can be made there ({error.strerror})") from error
            self._lock = on_failure.enter_context(lock_writer(path))
            if not path.exists():
                ChainFile.create(path, {"run": "helper"}, check=_any, kind=_KIND).close()
            self._chain = ChainFile.open(path, check=_any, kind=_KIND)
            on_failure.pop_all()
        self._answered = {(row.run, row.name) for row in self._chain.rows()}

    def __contains__(self, about: tuple[str, int]) -> bool:
        """Whether this round of this run was answered."""
        run, version = about
        return (run, _name(version)) in self._answered

    def add(
        self,
        run: str,
        version: int,
        *,
        board: str,
        clients: int,
        parameters: Mapping[str, Any],
        requests: Sequence[Request],
        noise: NoiseSource,
    ) -> None:
        """Write a round down before it is answered.

        Raises:
            RefusedError: it is in already.
            StorageError: it could not be written; the round must not be answered.
        """
        if (run, version) in self:
            raise RefusedError(Refusal.ANSWERED_BEFORE)
        record = {
            "name": _name(version),
            "board": board,
            "clients": clients,
            "parameters": dict(parameters),
            "noise": noise.describe(),
            "releases": [request.release.event() for request in requests],
        }
        with self._chain.writing() as add:
            add(run, _name(version), record)
        self._answered.add((run, _name(version)))

    def rows(self) -> tuple[Row, ...]:
        """All rows, oldest first."""
        return self._chain.rows()

    def close(self) -> None:
        """Let go of the folder."""
        self._chain.close()
        self._lock.close()


def _name(version: int) -> str:
    return f"round {version}"


def _any(header: Mapping[str, Any], row: Row) -> None:
    """Rows are told from others by the chain alone."""
