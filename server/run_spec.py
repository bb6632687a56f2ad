"""One statement of a run: the sections that ``fleet.toml``, a job and a simulation's configuration share.

What is promised, by which protocol, and at which pace. Each checks itself, wherever it was read, with one sentence.
"""

import math
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.contribution_bounding.participation import Participation, participation_with
from fedboard.common.errors import SettingError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import OF_TRAININGS, Adjacency
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import USUAL, names_where, says

LONGER = 4.0
"""The longest deadline is so many times the usual one."""
_NUMBER_OF = {"poisson": "probability", "fixed-size": "size", "shuffled-cohorts": "cohorts"}


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common to all sections: immutable, keyword-only, misspelt keys are errors."""


def require(holds: bool, sentence: str) -> None:
    """Raise SettingError with this sentence where it does not hold."""
    if not holds:
        raise SettingError(sentence)


class ParticipationChoice(Section, frozen=True, kw_only=True):
    """Who takes part in a round, see ``fedboard.common.contribution_bounding.participation``."""

    kind: Literal["full", "poisson", "fixed-size", "shuffled-cohorts"] = "full"
    probability: float | None = None
    """Of ``poisson``: each user's coin; in (0, 1)."""
    size: int | None = None
    """Of ``fixed-size``: users per round."""
    cohorts: int | None = None
    """Of ``shuffled-cohorts``: how many take turns."""

    def __post_init__(self) -> None:
        """Check that the kind has its number and no other.

        Raises:
            SettingError: names the number.
        """
        for name in _NUMBER_OF.values():
            given = getattr(self, name) is not None
            rule = "has no" if given else "needs"
            require(
                given == (_NUMBER_OF.get(self.kind) == name), f"participation {self.kind!r} {rule} {name}"
            )
        require(
            self.probability is None or 0 < self.probability < 1,
            f"participation.probability must be in (0, 1), got {self.probability}; where everybody takes part, "
            "participation is 'full'",
        )
        for name in ("size", "cohorts"):
            value = getattr(self, name)
            require(
                value is None or value >= 1,
                f"participation.{name} must be a whole number >= 1, got {value}",
            )

    @property
    def chosen(self) -> Participation:
        """What draws who takes part, and says so in the releases."""
        return participation_with(probability=self.probability, size=self.size, cohorts=self.cohorts)


class Promise(Section, frozen=True, kw_only=True):
    """What every user is promised over the whole training: the section ``privacy``."""

    epsilon: float
    """Privacy loss bound, natural-log units; finite and > 0."""
    delta: float = 1e-5
    """Probability that the bound fails; in (0, 1), well below 1 / n_users."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    """``add-remove`` or ``replace``."""
    noise: str = "secure"
    """``secure``, or ``seeded``, which repeats bit for bit and protects nobody: for trials only."""
    seed: int = 0
    """Of the first factors, and of seeded noise; >= 0. Public."""
    participation: ParticipationChoice = ParticipationChoice()
    population: str | None = None
    """Account file of the users whose data this is, if one is kept: all runs that name it add up."""
    lineage: str | None = None
    """Id of the lineage in that account which this run counts with; None: it founds one of its own."""

    def __post_init__(self) -> None:
        """Check the ranges, and what cannot be accounted.

        Raises:
            SettingError: names the key.
        """
        for rule, holds in self._rules().items():
            require(holds, rule)

    def _rules(self) -> dict[str, bool]:
        kind, replaces = self.participation.kind, self.adjacency is not Adjacency.ADD_REMOVE
        return {
            f"privacy.epsilon must be a finite number > 0, got {self.epsilon}": 0 < self.epsilon < math.inf,
            f"privacy.delta must be in (0, 1), got {self.delta}; usual is less than one over the number of users": (
                0 < self.delta < 1
            ),
            f"privacy.adjacency must be {' or '.join(OF_TRAININGS)} for a training, got '{self.adjacency}'": (
                self.adjacency in OF_TRAININGS
            ),
            f"privacy.noise must be 'secure' or 'seeded', got {self.noise!r}": self.noise
            in ("secure", "seeded"),
            f"seed must be a whole number >= 0, got {self.seed}": self.seed >= 0,
            "privacy.lineage is an id in a population's account: give privacy.population too": self.lineage
            is None
            or self.population is not None,
            "participation 'poisson' is accounted under adjacency 'add-remove' only: set privacy.adjacency to "
            "'add-remove', or take participation 'full'": kind != "poisson" or not replaces,
            f"participation {kind!r} is not accounted under adjacency 'add-remove', where a user more takes the "
            "place of another: set privacy.adjacency to 'replace', or take participation "
            "'poisson' or 'full'": (kind not in ("fixed-size", "shuffled-cohorts") or replaces),
        }

    @property
    def budget(self) -> Budget:
        """What the run's ledger keeps to."""
        return Budget(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency)

    @property
    def noise_source(self) -> NoiseSource:
        """Where the server's own noise comes from."""
        return SecureNoise() if self.noise == "secure" else SeededNoise(self.seed)


class HelperServer(Section, frozen=True, kw_only=True):
    """The second server, where the protocol has one, and who it is; somebody else runs it."""

    address: str
    """``host:port``."""
    authority: Path
    """PEM file of the authority that vouches for it."""
    identity: str
    """Of its key, as ``fedboard helper`` prints it; every device names the same in its policy."""
    token: Path | None = None
    """File with the secret that it asks for; only its owner can read it."""

    def __post_init__(self) -> None:
        """Check the identity.

        Raises:
            SettingError: it is none.
        """
        require(
            re.fullmatch("[0-9a-f]{64}", self.identity) is not None,
            "the identity of a helper is 64 hexadecimal digits, as `fedboard helper` prints it, got "
            f"{self.identity!r}",
        )


class ProtocolChoice(Section, frozen=True, kw_only=True):
    """How contributions become sums, and so whom that asks to be trusted: the section ``protocol``."""

    name: str = USUAL
    """One of ``fedboard protocols show``."""
    settings: dict[str, Any] = {}
    """Overrides of what is chosen for the fleet, by parameter name."""
    helper: HelperServer | None = None
    roster: Path | None = None
    """Where devices are vouched for (``settings.vouched_by``): the list of them, as ``fedboard keys sign`` writes
    it. It is read anew for each round."""


class RoundPace(Section, frozen=True, kw_only=True):
    """When a round begins and ends: the section ``rounds``."""

    expected_nodes: int
    """A round begins when as many nodes are there. It is complete after as many answers, once whoever else is there
    has answered too or ``grace_seconds`` are over; >= 1."""
    quorum: int
    """Fewest answers that make a round; nobody is asked before as many nodes are there. In [1,
    expected_nodes]."""
    deadline_seconds: float = 600.0
    """How long a round waits for answers; > 0. It doubles each time that a round is asked again, up to four times
    as long."""
    attempts: int = 3
    """How often a round that lacks its quorum is asked, with the same question, before it is given up and its
    budget is lost; >= 1."""
    most_lost: float = 0.2
    """A training that lost a larger share of its rounds ends with exit code 6, and ``/healthz`` fails; in [0,
    1]."""
    grace_seconds: float = 30.0
    """How long a round that has its quorum waits for expected nodes that are not there, and one that has all that
    are expected for others that are; > 0."""

    @property
    def longest_seconds(self) -> float:
        """To which a deadline grows, as it doubles each time that a round is asked again."""
        return LONGER * self.deadline_seconds


def require_rows(promise: Promise, protocol: ProtocolChoice) -> None:
    """Who is drawn is drawn among rows, so somebody must see them.

    Args:
        promise: says who takes part.
        protocol: that sums.

    Raises:
        SettingError: nobody would.
    """
    kind = promise.participation.kind
    if kind == "full":
        return
    require(
        says(protocol.name, shows_rows),
        f"participation {kind!r} draws who takes part among rows, and protocol {protocol.name!r} shows none to the "
        f"aggregator; take protocol '{names_where(shows_rows)}', or let everybody take part",
    )
