"""The register of a fleet's devices: who is admitted, who was, and the invitations that are open.

One SQLite file in the state folder, which every part of the server reads: the service of devices before each call,
the round loop before it asks and before it takes. A change is one transaction that is on the disk before it is told
of, so a crash leaves it made or not made, and an invitation is used once.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fedboard.common.errors import InputError, StorageError
from fedboard.common.messages.enrolment import JoinError, JoinRefusal, digest_of_secret
from fedboard.server.run_spec import Section

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


class Member(NamedTuple):
    """One device, admitted or not; a row of the register."""

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


class OpenInvitation(NamedTuple):
    """One that nobody has used; its secret is nowhere here."""

    name: str
    max_users: int
    expires: float
    """Seconds since 1970 UTC."""


MOST_USERS = 1 << 24
"""So that sums of rows within their bounds, 2^38 each, stay below 2^63."""


class Capacity(Section, frozen=True, kw_only=True):
    """For how many devices a training is sized, that join while it runs."""

    devices: int
    """At a time; >= 1."""
    users: int
    """Behind all of them; >= devices."""

    @property
    def each(self) -> int:
        """Most users of one device: what is left when every other one hosts one."""
        return self.users - self.devices + 1


_BUSY_MILLISECONDS = 5000


class Register(AbstractContextManager["Register"]):
    """The file, open. One thread uses it; each part of the server opens it for itself."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Open it, or make it.

        Args:
            path: of the file; its folder exists.
            clock: seconds since 1970 UTC.

        Raises:
            StorageError: it cannot be used.
        """
        self._path, self._clock = path, clock
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                path.chmod(0o600)
                self._database.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
                self._database.execute("PRAGMA journal_mode = WAL")  # who reads never waits for who writes
                self._database.execute("PRAGMA synchronous = FULL")
                if self._format() != FORMAT:
                    with self._changing():
                        self._make()
            except BaseException:
                self._database.close()  # or what it has locked stays locked
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from SQLite's own words
            raise StorageError(f"{path}: the register of devices cannot be used ({error})") from error

    def _format(self) -> int:
        return int(self._one("PRAGMA user_version")[0])

    def _make(self) -> None:
        if (found := self._format()) not in (0, FORMAT):
            raise StorageError(
                f"{self._path}: a register of format {found}, and this version of fedboard reads {FORMAT}; start "
                "the server with the version that wrote it"
            )
        for statement in TABLES.split(";"):
            self._database.execute(statement)
        self._database.execute(f"PRAGMA user_version = {FORMAT}")

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._database.close()

    def state(self) -> tuple[int, int]:
        """Another one after anybody has changed the file; costs some microseconds."""
        return int(self._one("PRAGMA data_version")[0]), self._database.total_changes

    def admitted(self) -> list[Member]:
        """Who may take part now, in the order of their coming."""
        return [member for member in self.members() if member.admitted]

    def members(self) -> list[Member]:
        """Everybody who ever was, in the order of their coming."""
        return self._members("ORDER BY number")

    def _members(self, which: str, *values: str) -> list[Member]:
        columns = ", ".join(Member._fields)
        return [
            Member(*row) for row in self._database.execute(f"SELECT {columns} FROM member {which}", values)
        ]

    def invite(self, secret: bytes, *, name: str, max_users: int, seconds: float) -> float:
        """Open an invitation.

        Args:
            secret: its own; a digest of it is kept.
            name: of the device to be.
            max_users: that it may host.
            seconds: how long it may be used.

        Returns:
            When it ends, seconds since 1970 UTC.

        Raises:
            InputError: a device or an open invitation has this name.
        """
        with self._changing():
            now = self._clock()
            self._database.execute("DELETE FROM invitation WHERE used IS NULL AND expires < ?", (now,))
            (taken,) = self._one(
                "SELECT EXISTS (SELECT 1 FROM member WHERE name = ?1 AND removed IS NULL) "
                "OR EXISTS (SELECT 1 FROM invitation WHERE name = ?1 AND used IS NULL)",
                name,
            )
            if taken:
                raise InputError(
                    f"a device or an open invitation is called {name!r}; choose another name, or: "
                    f"fedboard fleet remove {name}"
                )
            self._database.execute(
                "INSERT INTO invitation (digest, name, max_users, made, expires) VALUES (?, ?, ?, ?, ?)",
                (digest_of_secret(secret), name, max_users, now, now + seconds),
            )
        return now + seconds

    def invitations(self) -> list[OpenInvitation]:
        """Those that can be used now, by the time when they end."""
        rows = self._database.execute(
            "SELECT name, max_users, expires FROM invitation WHERE used IS NULL AND expires >= ? "
            "ORDER BY expires, name",
            (self._clock(),),
        )
        return [OpenInvitation(*row) for row in rows]

    def join(
        self, secret: bytes, key: str, *, capacity: Capacity, version: str = "", identity: str | None = None
    ) -> Member:
        """Admit a device; the same device may ask again with the same invitation, if the answer got lost.

        Args:
            secret: of its invitation.
            key: its public key, 64 hexadecimal digits, of which it has shown that it has the private half.
            capacity: of the training.
            version: of fedboard there.
            identity: by which other members may know it, of which it has shown the same.

        Raises:
            JoinError: it is not admitted, and nothing has changed but the count of an invitation that was used.
        """
        with self._changing():
            found = self._joined(digest_of_secret(secret), key, capacity, version, identity)
        if isinstance(found, JoinRefusal):
            raise JoinError(found)
        return found

    def _joined(
        self, digest: str, key: str, capacity: Capacity, version: str, identity: str | None
    ) -> Member | JoinRefusal:
        """The member that this key is from now on with this invitation, or already was; or why it is none."""
        row = self._one("SELECT name, max_users, expires, used, key FROM invitation WHERE digest = ?", digest)
        if row is None:
            return JoinRefusal.UNKNOWN
        name, max_users, expires, used, used_by = row
        if used is not None and used_by != key:
            self._database.execute(
                "UPDATE invitation SET presented_again = presented_again + 1 WHERE digest = ?", (digest,)
            )
            return JoinRefusal.USED
        known = self._one("SELECT removed FROM member WHERE key = ?", key)
        if known is not None and known[0] is not None:
            return JoinRefusal.REMOVED
        if used is not None:
            return self._by_key(key)
        if known is not None:
            return JoinRefusal.TAKEN
        if expires < self._clock():
            return JoinRefusal.EXPIRED
        other = self._one("SELECT removed FROM member WHERE identity = ?", identity)
        if other is not None:  # no identity is two members', nor that of one who was removed
            return JoinRefusal.TAKEN if other[0] is None else JoinRefusal.REMOVED
        devices, users = self._one(
            "SELECT count(*), coalesce(sum(max_users), 0) FROM member WHERE removed IS NULL"
        )
        if devices >= capacity.devices or users + max_users > capacity.users:
            return JoinRefusal.FULL
        now = self._clock()
        self._database.execute("UPDATE invitation SET used = ?, key = ? WHERE digest = ?", (now, key, digest))
        self._database.execute(
            "INSERT INTO member (key, name, max_users, joined, version, identity) VALUES (?, ?, ?, ?, ?, ?)",
            (key, name, max_users, now, version, identity),
        )
        return self._by_key(key)

    def _one(self, query: str, *values: object) -> Any:
        return self._database.execute(query, values).fetchone()

    def _by_key(self, key: str) -> Member:
        (found,) = self._members("WHERE key = ?", key)
        return found

    def remove(self, name: str) -> str:
        """Shut a device out for good, or withdraw the open invitation of this name.

        Returns:
            ``device`` or ``invitation``.

        Raises:
            InputError: there is neither.
        """
        with self._changing():
            removed = self._database.execute(
                "UPDATE member SET removed = ? WHERE name = ? AND removed IS NULL",
                (self._clock(), name),
            ).rowcount
            withdrawn = self._database.execute(
                "DELETE FROM invitation WHERE name = ? AND used IS NULL", (name,)
            ).rowcount
        if not removed and not withdrawn:
            known = sorted({m.name for m in self.admitted()} | {one.name for one in self.invitations()})
            some = ", ".join([*known[:10], *(["..."] if len(known) > 10 else [])]) or "none"
            raise InputError(f"no device and no open invitation is called {name!r}; there are {some}")
        return "device" if removed else "invitation"

    def withdraw_all(self) -> int:
        """Withdraw every open invitation; how many there were."""
        with self._changing():
            return self._database.execute("DELETE FROM invitation WHERE used IS NULL").rowcount

    def presented_again(self) -> list[str]:
        """Names of devices whose invitation somebody else presented too: it was seen by others."""
        rows = self._database.execute("SELECT name FROM invitation WHERE presented_again > 0 ORDER BY name")
        return [name for (name,) in rows]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One transaction, alone; all of it or nothing."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):  # where the disk is full SQLite has done so itself
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StorageError(
                    f"{self._path}: the register of devices cannot be used ({error})"
                ) from error
            raise
