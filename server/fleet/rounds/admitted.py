"""Which nodes may take part in the round under way: admitted when it began, and admitted still."""

from pathlib import Path

from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.job import Job


class Admitted:
    """Read from the register each time that it has changed; without one, the job's list for ever.

    Guarantee: a node that joined after a round began is not in it, so that whoever was removed and joins again with
    another key is in no round twice; a node that was removed is out of it at once. Together those who are in never
    host more users than the protocol was sized for: whoever came later than that is left out.
    """

    def __init__(self, job: Job) -> None:
        """Open the register, where the job names one.

        Raises:
            StorageError: it cannot be used, so nobody would be known to be admitted.
        """
        self._job = job
        self._register = None if job.enrolled is None else Register(Path(job.enrolled.register))
        self._state: tuple[int, int] | None = None
        self._now = dict(job.nodes or {})
        self._begun: frozenset[str] | None = None

    def now(self) -> dict[str, int]:
        """Public key to most users, of all that are admitted at this moment."""
        if self._register is not None and (state := self._register.state()) != self._state:
            self._now, self._state = self._read(self._register), state
        return self._now

    def open_round(self) -> None:
        """Let in whoever is admitted, until ``begin_round``."""
        self._begun = None

    def begin_round(self) -> None:
        """From now on nobody comes in."""
        self._begun = frozenset(self.now())

    def in_round(self) -> dict[str, int]:
        """Those who are admitted and were when the round began."""
        now, begun = self.now(), self._begun
        return now if begun is None else {key: users for key, users in now.items() if key in begun}

    def __contains__(self, key: str) -> bool:
        """Whether this node is in the round."""
        return key in self.now() and (self._begun is None or key in self._begun)

    def _read(self, register: Register) -> dict[str, int]:
        found, users = dict[str, int](), 0
        for member in register.admitted():
            users += member.max_users
            if users > self._job.n_users:
                break
            found[member.key] = member.max_users
        return found
