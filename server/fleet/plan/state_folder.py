"""Where a fleet's server keeps what must survive it."""

from dataclasses import dataclass
from pathlib import Path

from fedboard.server.fleet.plan.settings import FleetSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """The files under ``state``; nothing outside it is written but the log of boards, where it is elsewhere."""

    path: Path
    name: str
    """Of the training run."""

    @property
    def lock(self) -> Path:
        """Held by the one server that works on this folder."""
        return self.path / "server.lock"

    @property
    def job(self) -> Path:
        """What the ServerApp is to do, JSON."""
        return self.path / "job.json"

    @property
    def first_board(self) -> Path:
        """Board 0: the task and its catalogue, no data."""
        return self.path / "first.board"

    @property
    def features(self) -> Path:
        """Public features of the items, if the task uses any."""
        return self.path / "features.npy"

    @property
    def run(self) -> Path:
        """The training: ledger, boards, certificate, log of the rounds. The folder's name is the run's."""
        return self.path / "runs" / self.name

    @property
    def members(self) -> Path:
        """The register of devices and invitations, see ``fedboard.server.fleet.members``."""
        return self.path / "members.sqlite"

    @property
    def door(self) -> Path:
        """What the door has seen of each device, JSON; for the operator."""
        return self.path / "door.json"

    @property
    def line(self) -> Path:
        """Tells the round loop where it reaches the door, see ``fedboard.server.fleet.line``."""
        return self.path / "line"

    @property
    def database(self) -> Path:
        """SuperLink's: nodes, runs, messages in flight."""
        return self.path / "superlink.db"

    @property
    def flower(self) -> Path:
        """Flower's home."""
        return self.path / "flower"

    @property
    def counts(self) -> Path:
        """Folder of what the parts count, one JSON file each, for the metrics."""
        return self.run / "counts"

    @property
    def questions(self) -> Path:
        """Folder of the questions and of the account that they are paid from."""
        return self.path / "questions"

    @property
    def mirror(self) -> Path:
        """The signed boards, as readers get them."""
        return self.path / "mirror"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.path / "logs" / f"{name}.log"

    def make(self) -> None:
        """Create the folders. They are their owner's only, even if they were there with other permissions."""
        logs, runs = self.path / "logs", self.run.parent
        for folder in (self.path, self.flower, logs, runs, self.run, self.counts):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)

    @staticmethod
    def of(settings: FleetSettings) -> "StateFolder":
        """The one that the settings name."""
        return StateFolder(path=settings.state, name=settings.name)
