"""Where a fleet's server finds its keys and keeps what must survive it; how a training is closed there."""

from dataclasses import dataclass
from pathlib import Path

from fedboard.common.errors import PrivacyError
from fedboard.common.files import write_atomically
from fedboard.server.fleet.plan.settings import FleetSettings


@dataclass(frozen=True, slots=True)
class KeysFolder:
    """The files under ``keys``, by fixed names. The server only reads there."""

    path: Path

    @property
    def authority(self) -> Path:
        """PEM file of the authority that signed the server's certificate; every device has a copy."""
        return self.path / "authority.pem"

    @property
    def authority_key(self) -> Path:
        """Its private key, which is needed for new certificates alone; best kept elsewhere."""
        return self.path / "authority.key"

    @property
    def certificate(self) -> Path:
        """PEM file of the server's certificate."""
        return self.path / "server.pem"

    @property
    def key(self) -> Path:
        """Its private key, PEM."""
        return self.path / "server.key"

    @property
    def questions(self) -> Path:
        """Private key that signs what devices are asked."""
        return self.path / "questions.key"

    @property
    def boards(self) -> tuple[Path, ...]:
        """Private keys that sign boards: ``boards.key``, and ``boards-*.key`` where a root asks for several."""
        return (self.path / "boards.key", *sorted(self.path.glob("boards-*.key")))

    @property
    def roots(self) -> Path | None:
        """Folder of the roots that say which keys sign; None: readers have pinned ``boards.key``."""
        folder = self.path / "roots"
        return folder if folder.is_dir() else None

    @property
    def roster(self) -> Path:
        """List of the devices that an authority vouches for, where the protocol has one."""
        return self.path / "roster.json"

    @property
    def helper_authority(self) -> Path:
        """PEM file of the authority that vouches for the second server."""
        return self.path / "helper.pem"

    @property
    def helper_token(self) -> Path | None:
        """Secret that the second server asks for; None: it asks for none."""
        place = self.path / "helper.token"
        return place if place.exists() else None

    @property
    def helper_identity(self) -> Path:
        """Identity of the second server's key, as ``fedboard helper`` prints it."""
        return self.path / "helper.identity"

    @staticmethod
    def of(settings: FleetSettings) -> "KeysFolder":
        """The one that the settings name."""
        return KeysFolder(settings.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """The files under ``state``; nothing outside it is written."""

    path: Path
    name: str
    """Of the training run."""

    @property
    def lock(self) -> Path:
        """Held by the one server that works on this folder."""
        return self.path / "server.lock"

    @property
    def job(self) -> Path:
        """What the round loop is to do, JSON."""
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
        """What the port has seen of each device, JSON; for the operator."""
        return self.path / "door.json"

    @property
    def questions(self) -> Path:
        """Folder of the queries and of the account that they are paid from."""
        return self.path / "questions"

    @property
    def mirror(self) -> Path:
        """The signed boards, as readers get them."""
        return self.path / "mirror"

    def make(self) -> None:
        """Create the folders. They are their owner's only, even if they were there with other permissions."""
        for folder in (self.path, self.run.parent, self.run):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)

    @staticmethod
    def of(settings: FleetSettings) -> "StateFolder":
        """The one that the settings name."""
        return StateFolder(path=settings.state, name=settings.name)


def close_training(state: StateFolder, reason: str) -> None:
    """Write down that it is closed; durable on return.

    Args:
        state: of the fleet.
        reason: a sentence without a full stop.
    """
    state.run.mkdir(parents=True, exist_ok=True)
    write_atomically(_mark(state.run), reason.encode())


def open_training(state: StateFolder) -> None:
    """Take back that it is closed: of who closed it until something was done that is done now."""
    _mark(state.run).unlink(missing_ok=True)


def reason_of(run: Path) -> str | None:
    """Why the training in this folder is closed; None where it is not."""
    try:
        return _mark(run).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def require_open(run: Path) -> None:
    """Refuse to go on with a training that is closed.

    Raises:
        PrivacyError: it is.
    """
    if (reason := reason_of(run)) is not None:
        raise PrivacyError(
            f"{run}: this training is closed: {reason}. Its boards are published as before; a new "
            "training needs another "
            "state folder and budget"
        )


def _mark(run: Path) -> Path:
    return run / "closed"
