"""The rounds of a helper: what a leader may ask of it, and how often.

Which rounds it has answered and what noise it added is durable before the answer leaves.
"""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.arrays import ResidueArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.messages.question import board_of_round
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.chain_rows import Row, lock_writer
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.two_server.helper import HelperPart, HelperSession, RoundKey, TwoServerRules

FILE_NAME = "answered-rounds.db"
_KIND = "helper"
_MOST_OPEN = 8
"""Rounds that are open at a time; an older one is forgotten, which loses it."""
_ABOUT_LINES = 6
"""Run, round, board, session, protocol, parameters (``StepMessage.about``); a run's name has no line of its own."""


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

    def add(self, run: str, version: int, record: Mapping[str, Any]) -> None:
        """Write a round down before it is answered.

        Raises:
            RefusedError: it is in already.
            StorageError: it could not be written; the round must not be answered.
        """
        if (run, version) in self:
            raise RefusedError(Refusal.ANSWERED_BEFORE)
        with self._chain.writing() as add:
            add(run, _name(version), {"name": _name(version), **record})
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


@dataclass(slots=True, kw_only=True)
class _Open:
    """A round that was begun."""

    run: str
    board: Board
    rules: TwoServerRules
    requests: tuple[Request, ...]
    session: HelperSession
    lock: threading.Lock = field(default_factory=threading.Lock)


class HelperRounds:
    """Begins rounds, takes shares, and gives one total for each round of a run, for ever.

    What is asked, and so how much noise is added, it reads off the board, whose digest clients have sealed their
    shares to; the leader's word counts for nothing. Its noise is secret. Methods may be called by several threads.
    """

    def __init__(
        self, identity: Ed25519PrivateKey, answered: AnsweredRounds, *, least_clients: int = 2
    ) -> None:
        """Use an identity and a record.

        Args:
            identity: signs the key of each round.
            answered: rounds that are over.
            least_clients: a leader that wants sums of fewer is refused.
        """
        self._identity, self._answered, self._least = identity, answered, least_clients
        self._noise = SecureNoise()
        self._open: dict[bytes, _Open] = {}
        self._lock = threading.Lock()

    def begin(self, about: bytes, rules: TwoServerRules, board: bytes) -> RoundKey:
        """Begin a round; beginning it again gives the same key.

        Args:
            about: from a leader that need not be honest, as are the others.
            rules: its public parameters.
            board: what clients were asked about.

        Raises:
            RefusedError: answered before, not about this board, or a task or parameters that are not helped here.
        """
        run, read = _read(about, board)
        if rules.survivors < self._least:
            raise RefusedError(Refusal.TOO_FEW)
        if (run, read.version) in self._answered:
            raise RefusedError(Refusal.ANSWERED_BEFORE)
        with self._lock:
            if about not in self._open:
                self._open[about] = self._begun(about, run, read, rules)
                for old in list(self._open)[:-_MOST_OPEN]:
                    del self._open[old]
            return self._open[about].session.key

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        """Take one client's part.

        Raises:
            RefusedError: it does not count; nothing has changed.
        """
        found = self._found(about)
        with found.lock:
            found.session.take(client, part)

    def total(self, about: bytes, clients: tuple[str, ...]) -> ResidueArray:
        """The helper's share with its noise: written down, then given, once.

        Raises:
            RefusedError: not the clients that it took, too few, or the round was answered before.
            StorageError: it could not be written down; nothing is given.
        """
        found = self._found(about)
        with found.lock:
            found.session.require_total(clients)
            record = {
                "board": found.board.digest,
                "clients": len(clients),
                "parameters": dict(found.rules.parameters),
                "noise": self._noise.describe(),
                "releases": [request.release.event() for request in found.requests],
            }
            with self._lock:
                self._answered.add(found.run, found.board.version, record)
                self._open.pop(about, None)
            return found.session.total(clients)

    def _begun(self, about: bytes, run: str, board: Board, rules: TwoServerRules) -> _Open:
        try:
            requests = rebuild_any(board).requests(board)
            session = HelperSession(about, requests, rules, identity=self._identity, noise=self._noise)
        except (FedboardError, ArithmeticError, LookupError, TypeError, ValueError):
            raise RefusedError(Refusal.BAD_BOARD) from None
        if not requests:
            raise RefusedError(Refusal.BAD_BOARD)
        return _Open(run=run, board=board, rules=rules, requests=requests, session=session)

    def _found(self, about: bytes) -> _Open:
        with self._lock:
            found = self._open.get(about)
        if found is None:
            run, version, _ = _names(about)
            answered = (run, version) in self._answered
            raise RefusedError(Refusal.ANSWERED_BEFORE if answered else Refusal.NO_SESSION)
        return found


def _read(about: bytes, board: bytes) -> tuple[str, Board]:
    """The run and the board, where they are what ``about`` names."""
    run, version, digest = _names(about)
    return run, board_of_round(np.frombuffer(board, dtype=np.uint8), version=version, digest=digest)


def _names(about: bytes) -> tuple[str, int, str]:
    """Run, round and digest of the board; another reading of the same bytes is not possible."""
    try:
        lines = about.decode(errors="surrogatepass").split("\n")
    except UnicodeDecodeError:
        raise RefusedError(Refusal.MALFORMED) from None
    if len(lines) != _ABOUT_LINES or not lines[1].isdecimal():
        raise RefusedError(Refusal.MALFORMED)
    return lines[0], int(lines[1]), lines[2]
