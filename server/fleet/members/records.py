"""What the register of a fleet's devices holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = 2
"""Of the file."""
TABLES = """
CREATE TABLE IF NOT EXISTS member (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    max_users INTEGER NOT NULL CHECK (max_users >= 1),
    joined REAL NOT NULL,
    removed REAL,
    version TEXT NOT NULL,
    identity TEXT UNIQUE
);
CREATE UNIQUE INDEX IF NOT EXISTS name_of_member ON member (name) WHERE removed IS NULL;
CREATE TABLE IF NOT EXISTS invitation (
    digest TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    max_users INTEGER NOT NULL CHECK (max_users >= 1),
    made REAL NOT NULL,
    expires REAL NOT NULL,
    used REAL,
    key TEXT,
    presented_again INTEGER NOT NULL DEFAULT 0
);
"""
COLUMNS = "number, key, name, max_users, joined, removed, version, identity"
"""Of a member, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One device, admitted or not."""

    number: int
    """In the order of their coming."""
    key: str
    """Public, Ed25519, 64 hexadecimal digits: by which it is known everywhere."""
    name: str
    max_users: int
    """How many users' answers are taken from it at most."""
    joined: float
    """Seconds since 1970 UTC."""
    removed: float | None
    """When it was, if it was; for good."""
    version: str
    """Of fedboard when it joined; empty where it did not say."""
    identity: str | None
    """Key by which other members may know it, hexadecimal; None where it has shown none."""

    @property
    def admitted(self) -> bool:
        """Whether it may take part."""
        return self.removed is None

    @staticmethod
    def of(row: Sequence[Any]) -> "Member":
        """Of a row with ``COLUMNS``."""
        number, key, name, max_users, joined, removed, version, identity = row
        return Member(
            number=number,
            key=key,
            name=name,
            max_users=max_users,
            joined=joined,
            removed=removed,
            version=version,
            identity=identity,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInvitation:
    """One that nobody has used; its secret is nowhere here."""

    name: str
    max_users: int
    expires: float
    """Seconds since 1970 UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """For how many enrolled devices a training is sized."""

    devices: int
    users: int
    """Of all of them together."""
