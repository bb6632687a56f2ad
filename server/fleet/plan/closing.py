"""A training that may release nothing more, and says so itself."""

from pathlib import Path

from fedboard.common.errors import PrivacyError
from fedboard.common.files import write_atomically
from fedboard.server.fleet.plan.state_folder import StateFolder


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
