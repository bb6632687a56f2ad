"""A log that came out of a backup and may be older than what witnesses and readers have seen: it signs nothing.

What it signed next would contradict that, for good, and its key would count as that of a server which shows
different people different boards. So a person decides first.
"""

from pathlib import Path

from fedboard.common.errors import PrivacyError
from fedboard.common.files import write_atomically

MARK = "restored"


def mark_restored(folder: Path) -> None:
    """Nobody could show that nothing was signed in this log since it was copied; durable on return."""
    write_atomically(folder / MARK, b"From a backup; nobody could show that nothing was signed here since.\n")


def require_decided(folder: Path) -> None:
    """Refuse a log that is marked so.

    Raises:
        PrivacyError: it is; what to do is said.
    """
    mark = folder / MARK
    if mark.exists():
        raise PrivacyError(
            f"{folder}: this log of boards came out of a backup, and nobody could show that nothing was signed in "
            "it since: its next checkpoint may contradict those that witnesses have. Put the newest copy of the "
            f"folder in its place; or, if you know that this is the newest, remove {mark}; or begin another log "
            "(fedboard keys log), whose name and key everybody who relies on witnesses has to take over"
        )
