"""A job: what is trained over nodes and how; its protocol, sized for them and held against what will be asked."""

import time
from collections.abc import Callable

from fedboard.common.board import Board
from fedboard.common.boards.roster import Roster
from fedboard.common.errors import InputError, SettingError, TooFewAnswersError
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.properties import (
    authority_of,
    can_be_vouched,
)
from fedboard.common.protocols.registry import sized_protocol
from fedboard.common.task import ClientTask
from fedboard.server.fleet.register import Capacity
from fedboard.server.run_spec import Promise, ProtocolChoice, RoundPace, Section, require_rows

MOST_USERS = 1 << 24
"""So that sums of rows within their bounds, 2^38 each, stay below 2^63."""


class Job(Section, frozen=True, kw_only=True):
    """What is trained, what it may cost, whom to ask and how long to wait."""

    folder: str
    """Where ledger, boards, certificate and the log of rounds are; made if need be."""
    first_board: str
    """File of the board of version 0: the task with all that it will ask, and the catalogue."""
    question_key: str
    """File with the private key that questions are signed with; nodes answer no others."""
    privacy: Promise
    protocol: ProtocolChoice = ProtocolChoice()
    rounds: RoundPace
    dataset: str = "the ratings on the devices of this fleet"
    """Public description."""
    assumptions: tuple[str, ...] = ()
    """Beyond those of every run; public facts."""
    users: int | None = None
    """How many users take part in all, at most; None: as many as the nodes may host."""
    backend: str = "numpy"
    """Kernels of the server."""
    features: str | None = None
    """A .npy file with public features of the items, float64, shape (n_items, n_features)."""
    enrolled: Capacity | None = None
    """None in simulations: whoever is there is a node."""

    def __post_init__(self) -> None:
        """See that nobody is drawn among users whose number changes.

        Raises:
            SettingError: somebody would be.
        """
        require_rows(self.privacy, self.protocol)
        if self.enrolled is not None and self.privacy.participation.kind != "full":
            raise SettingError(
                f"participation {self.privacy.participation.kind!r} draws from users whose number is fixed, and "
                "devices that join and leave change it: take participation 'full', or no register of devices"
            )

    @property
    def is_simulated(self) -> bool:
        """Whether nodes are simulated: nobody is a member, and they keep nothing beyond the run."""
        return self.enrolled is None

    @property
    def largest_cohort(self) -> int:
        """Most users of a node that has no limit of its own."""
        return MOST_USERS // self.rounds.expected_nodes

    @property
    def most_users(self) -> int:
        """Of one node."""
        return self.largest_cohort if self.enrolled is None else self.enrolled.each

    @property
    def n_users(self) -> int:
        """How many users take part in all, at most."""
        if self.users is not None:
            return self.users
        return MOST_USERS if self.enrolled is None else self.enrolled.users


ProtocolOf = Callable[[Board], AggregationProtocol]
"""The protocol of the round that asks about this board."""


def protocol_of(job: Job) -> AggregationProtocol:
    """The protocol of a job, sized for its nodes.

    Raises:
        InputError: there is none of this name, a setting is out of range, or it cannot serve such a fleet.
    """
    return sized_protocol(
        job.protocol.name,
        clients=job.rounds.expected_nodes,
        users=job.n_users,
        settings=job.protocol.settings,
        backend=job.backend,
    )


def require_carried(protocol: AggregationProtocol, task: ClientTask, job: Job) -> None:
    """Hold a protocol against all that a task will ask and the fewest nodes that a round may have, in advance.

    Raises:
        InputError: it cannot carry one of the rounds, or not from so few nodes.
        PrivacyError: what it does to numbers breaks what a release relies on.
    """
    protocol = among_listed(protocol, job)
    for asked in task.plan():
        try:
            protocol.open(b"plan", asked, [str(number) for number in range(job.rounds.quorum)], n_items=1)
        except TooFewAnswersError as error:
            raise InputError(
                f"quorum is {job.rounds.quorum}, and protocol {protocol.name!r} needs more: {error}; raise quorum, "
                "or set the protocol's survivors"
            ) from None


def among_listed(protocol: AggregationProtocol, job: Job) -> AggregationProtocol:
    """The same protocol among the devices of the list as it stands in its file now; any other as it is.

    Raises:
        InputError: there is no list, or it is over, of another authority, or names more devices than the run was
            sized for.
    """
    authority, path = authority_of(protocol), job.protocol.roster
    if authority is None or not can_be_vouched(protocol):
        return protocol
    if path is None:
        raise InputError("devices are vouched for, and no list names them: sign one with fedboard keys sign")
    roster = Roster.load(path, authority=authority)
    if roster.until < time.time():
        raise InputError(f"{path}: this list of devices is over, and no device takes it; sign it again")
    try:
        return protocol.among(roster)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
