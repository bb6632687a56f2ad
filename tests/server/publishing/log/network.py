"""A log, and witnesses of it on ports of this machine, one of them hostile: it signs whatever it is shown."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind
from fedboard.common.boards.log.policy import Witness as Named
from fedboard.common.boards.log.policy import WitnessPolicy, most_of
from fedboard.common.boards.log.requests import AddCheckpoint
from fedboard.server.publishing.log.log import KEY
from fedboard.server.publishing.log.witness.service import RunningWitness, WitnessSettings
from fedboard.server.publishing.log.witness.witness import Reply, Witness

ORIGIN = "boards.example/films"


class Hostile(Witness):
    """It is in league with the operator."""

    def add_checkpoint(self, body: bytes) -> Reply:
        """Sign anything."""
        cosignature = self._key.cosign(AddCheckpoint.from_bytes(body).note.text)
        return Reply(HTTPStatus.OK, f"{cosignature.line}\n".encode())


@dataclass
class Network:
    """Keys, and what listens."""

    folder: Path
    log: NoteKey
    keys: list[NoteKey]
    running: list[RunningWitness] = field(default_factory=list)

    @property
    def origin(self) -> Path:
        """The log's folder."""
        return self.folder / "board-log"

    def names(self, only: Sequence[int] | None = None) -> tuple[Named, ...]:
        """The witnesses; those that are not among ``only`` are not asked."""
        return tuple(
            Named(
                f"w{n}",
                key.public,
                f"http://127.0.0.1:{self.running[n].port}" if only is None or n in only else None,
            )
            for n, key in enumerate(self.keys)
        )

    def policy(self, *, least: int, only: Sequence[int] | None = None) -> WitnessPolicy:
        """That so many suffice."""
        return most_of(self.log.public, self.names(only), least=least)

    def policy_file(
        self, *, least: int, only: Sequence[int] | None = None, name: str = "witnesses.policy"
    ) -> Path:
        """The same as a file."""
        path = self.folder / name
        path.write_text(self.policy(least=least, only=only).text)
        return path


@contextmanager
def network(folder: Path, *, honest: int, hostile: int = 0) -> Iterator[Network]:
    """So many witnesses that keep the rules, then so many that do not; a log without entries."""
    folder.mkdir(parents=True, exist_ok=True)
    log = NoteKey.generate(ORIGIN, Kind.NOTE)
    log.write(folder / "board-log" / KEY, folder / "board-log" / "board-log.pub")
    keys = [NoteKey.generate(f"w{n}.example/1", Kind.COSIGNATURE) for n in range(honest + hostile)]
    made = Network(folder, log, keys)
    with ExitStack() as stack:
        for n, key in enumerate(keys):
            kind = Witness if n < honest else Hostile
            witness = kind(key, [log.public], folder / f"memory-{n}")
            made.running.append(stack.enter_context(RunningWitness(witness, WitnessSettings())))
        yield made
