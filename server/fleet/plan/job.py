"""A job: everything that the server's app needs to run a fleet, in one JSON file that its host writes."""

from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.privacy.adjacency import OF_TRAININGS, Adjacency
from fedboard.common.protocols.registry import USUAL, names_where, says
from fedboard.common.protocols.shared.properties import shows_rows

MOST_USERS = 1 << 24
"""So that sums of rows within their bounds, 2^38 each, stay below 2^63."""
MOST_ATTEMPTS = 100
_LONGER = 4.0
"""The longest deadline is so many times the usual one, where nothing else is set."""
_MOST_SECONDS = 999_999.0


class HelperServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the second server is, and who it is."""

    address: str
    """``host:port``."""
    authority: str
    """PEM file of the authority that vouches for it."""
    identity: str
    """Of its key, as ``fedboard helper`` prints it; devices name the same in their policies."""
    token: str | None = None
    """File with the secret that it asks for."""


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is trained, what it may cost, whom to ask and how long to wait."""

    folder: str
    """Where ledger, boards, certificate and the log of rounds are; made if need be."""
    first_board: str
    """File of the board of version 0: the task with all that it will ask, and the catalogue."""
    question_key: str
    """File with the private key that questions are signed with; nodes answer no others."""
    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise: str = "secure"
    """``secure``, or ``seeded`` for simulations, which protects nobody."""
    seed: int = 0
    """Of seeded noise."""
    dataset: str = "the ratings on the devices of this fleet"
    """Public description."""
    assumptions: tuple[str, ...] = ()
    """Beyond those of every run; public facts."""
    population: str | None = None
    """Account file of the users, if one is kept."""
    lineage: str | None = None
    probability: float | None = None
    """Each user's coin, where participation is Poisson."""
    size: int | None = None
    """Users per round, where their number is fixed."""
    cohorts: int | None = None
    """Number of shuffled cohorts, where they take turns."""
    form: str = "factored"
    """Wire form of the answers, under ``trusted``."""
    protocol: str = USUAL
    """How contributions become a sum, by registered name."""
    protocol_settings: dict[str, Any] = {}
    """Of its public parameters, those that are not to be chosen for the fleet."""
    helper: HelperServer | None = None
    """The second server of ``two-server``."""
    users: int | None = None
    """How many users take part in all, at most; None: as many as the nodes may host."""
    backend: str = "numpy"
    """Kernels of the server."""
    features: str | None = None
    """A .npy file with public features of the items, float64, shape (n_items, n_features)."""
    nodes: dict[str, int] | None = None
    """Public key (PEM) of each admitted node -> most users that it may host; None in simulations."""
    expected_nodes: int
    """How many nodes are waited for before a round is asked, and after which it is complete."""
    quorum: int
    """Fewest nodes whose answers make a round."""
    deadline_seconds: float = 600.0
    """Of a round, from the moment when enough nodes are there; more where nodes took long so far."""
    longest_deadline_seconds: float | None = None
    """To which a deadline may grow; None: four times ``deadline_seconds``."""
    attempts: int = 3
    """How often a round without its quorum is asked, with the same question, before it is given up."""
    grace_seconds: float = 30.0
    """How long a round that has its quorum waits for expected nodes that are not there."""
    resend_seconds: float = 30.0
    """A node that has not answered for so long is asked again; it answers with the same bytes."""
    poll_seconds: float = 0.2
    step_seconds: float | None = None
    """How long one step of a protocol waits for replies; None: a quarter of ``deadline_seconds``."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: names the field.
        """
        if not 1 <= self.quorum <= self.expected_nodes:
            raise ValueError(
                f"quorum must be in 1..{self.expected_nodes} (expected_nodes), got {self.quorum}"
            )
        for name in ("deadline_seconds", "grace_seconds", "resend_seconds", "poll_seconds"):
            if not 0 < getattr(self, name) < 1e6:
                raise ValueError(f"{name} must be in (0, 1000000), got {getattr(self, name)}")
        if not self.deadline_seconds <= self.longest_seconds < 1e6:
            raise ValueError(
                f"longest_deadline_seconds must be in [{self.deadline_seconds:g}, 1000000) (from deadline_seconds "
                f"on), got {self.longest_seconds:g}"
            )
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise ValueError(f"attempts must be in 1..{MOST_ATTEMPTS}, got {self.attempts}")
        if self.adjacency not in OF_TRAININGS:
            raise ValueError(
                f"adjacency must be {' or '.join(OF_TRAININGS)} for a training, got '{self.adjacency}'"
            )
        if self.noise not in ("secure", "seeded"):
            raise ValueError(f"noise must be 'secure' or 'seeded', got {self.noise!r}")
        if self.step_seconds is not None and not 0 < self.step_seconds <= self.deadline_seconds:
            raise ValueError(
                f"step_seconds must be in (0, {self.deadline_seconds:g}] (deadline_seconds), got "
                f"{self.step_seconds}"
            )
        drawn = [name for name in ("probability", "size", "cohorts") if getattr(self, name) is not None]
        if len(drawn) > 1:
            raise ValueError(
                f"only one of probability, size and cohorts can be given, got {', '.join(drawn)}"
            )
        if drawn and not says(self.protocol, shows_rows):
            raise ValueError(
                f"{drawn[0]} draws who takes part among rows, and protocol {self.protocol!r} shows none to the "
                f"aggregator; use '{names_where(shows_rows)}', or let everybody take part"
            )
        if drawn and self.form != "factored":
            raise ValueError(
                f"{drawn[0]} draws who takes part among rows, and form {self.form!r} sends none; use 'factored'"
            )
        if drawn and self.probability is None and self.adjacency == Adjacency.ADD_REMOVE:
            raise ValueError(
                f"{drawn[0]} is not accounted under adjacency 'add-remove', where a user more takes the place of "
                "another; use 'replace', or let everybody take part"
            )
        if self.nodes is None:
            return
        if len(self.nodes) < self.expected_nodes:
            raise ValueError(f"{self.expected_nodes} nodes are expected but only {len(self.nodes)} admitted")
        if min(self.nodes.values()) < 1 or sum(self.nodes.values()) > MOST_USERS:
            raise ValueError(f"users per node must be >= 1 and {MOST_USERS} in all at most")

    @property
    def largest_cohort(self) -> int:
        """Most users of a node that has no limit of its own."""
        return MOST_USERS // self.expected_nodes

    @property
    def most_users(self) -> int:
        """Of one node."""
        return self.largest_cohort if self.nodes is None else max(self.nodes.values())

    @property
    def n_users(self) -> int:
        """How many users take part in all, at most."""
        if self.users is not None:
            return self.users
        return MOST_USERS if self.nodes is None else sum(self.nodes.values())

    @property
    def longest_seconds(self) -> float:
        """To which a deadline may grow."""
        if self.longest_deadline_seconds is not None:
            return self.longest_deadline_seconds
        return max(self.deadline_seconds, min(_LONGER * self.deadline_seconds, _MOST_SECONDS))

    @property
    def seconds_of_step(self) -> float:
        """How long one step waits for replies."""
        return self.deadline_seconds / 4 if self.step_seconds is None else self.step_seconds

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_atomically(path, msgspec.json.format(msgspec.json.encode(self)))

    @staticmethod
    def load(path: Path) -> "Job":
        """Read a job.

        Raises:
            InputError: no such file, or not a job.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=Job)
        except OSError as error:
            raise InputError(f"{path}: no job can be read there ({error.strerror})") from error
        except (msgspec.DecodeError, ValueError) as error:
            raise InputError(f"{path}: {error}") from error


__all__ = ["MOST_ATTEMPTS", "MOST_USERS", "HelperServer", "Job"]
