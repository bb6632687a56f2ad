"""A job: what is trained over nodes and how; its protocol, sized for them and held against what will be asked.

And from ``fleet.toml`` to what the server needs: board 0, which states the whole task, and its jobs.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedboard.common.algorithms.registry import (
    AnyTask,
    example_algorithm_of,
    learns_from_examples,
    variant_of,
)
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.boards.roster import Roster
from fedboard.common.errors import InputError, PrivacyError, SettingError, TooFewAnswersError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.properties import authority_of, can_be_vouched
from fedboard.common.protocols.registry import sized_protocol
from fedboard.common.task import ClientTask
from fedboard.server.calibrating import ExampleTraining, Training, calibrated_example_task, calibrated_task
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.features import load_item_features
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.server.catalogue.titles import layout_of, read_titles
from fedboard.server.fleet.register import MOST_USERS, Capacity, Register
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder, reason_of
from fedboard.server.publication import BoardStore
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.run_spec import HelperServer, Promise, ProtocolChoice, RoundPace, Section, require_rows

_KERNELS = "numpy"
"""Of the server: they need nothing that is not installed, and boards do not depend on the machine."""


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


def prepare(settings: FleetSettings) -> Board:
    """Make board 0, or check that the one in the state folder is the same.

    Returns:
        Board 0: task, settings, noise and catalogue; no data.

    Raises:
        InputError: catalogue or features cannot be read, a setting is out of range, or the state folder holds
            another training.
        PrivacyError: a board is signed that the training there does not have.
    """
    state = StateFolder.of(settings)
    state.make()
    if not settings.alone and reason_of(state.run) is None:
        _require_newest(state)
    begun = state.ledger.exists() or any(state.boards.glob("*"))
    if settings.alone and begun:  # a training that was, and its catalogue
        return Board.load(state.first_board)
    file = StoredFile(path=settings.catalogue.file)
    titles = read_titles(file, layout_of(file, ColumnMapping()))
    catalogue = Catalogue(item_ids=tuple(titles), titles=tuple(titles.values()))
    features = None
    if settings.catalogue.features is not None:
        known = load_item_features(settings.catalogue.features, catalogue.item_ids)
        catalogue, features = replace(catalogue, features=known.table), known.values
        np.save(state.features, features)
    task = _task(settings, features)
    board = task.first_board(catalogue)
    if not begun:  # though there may have been queries
        board.save(state.first_board)
    elif Board.load(state.first_board).digest != board.digest:
        raise InputError(
            f"{state.path}: a training with another task, budget or catalogue is kept there; "
            "give the new one another state folder"
        )
    job = job_of(settings)
    require_carried(protocol_of(job), task, job)
    with Register(state.members):
        return board  # invitations can be made now


def _require_newest(state: StateFolder) -> None:
    """Readers have no board that the training lacks; else its ledger is older than what was released."""
    chain, store = Mirror(state.mirror).chain(), BoardStore(state.boards)
    if not chain:
        return
    signed, versions = chain[-1].manifest, store.versions()
    if signed.version in versions and store.load(signed.version).digest == signed.board_digest:
        return
    raise PrivacyError(
        f"{state.mirror}: board {signed.version} is signed there, and the training in {state.run} "
        + ("has another one" if signed.version in versions else f"ends at board {max(versions, default=-1)}")
        + ": it is older than what was released, as a copy is. Put the newest state folder back, or restore a "
        "backup with fedboard fleet restore --closed"
    )


def _task(settings: FleetSettings, features: FloatArray | None) -> AnyTask:
    """With its noise.

    Raises:
        InputError: a setting is out of range, or item features for a task that has no items.
    """
    task = settings.task
    if not learns_from_examples(task.algorithm):
        training = Training(
            algorithm=variant_of(task.algorithm),
            feedback=Feedback(task.feedback),
            promise=settings.promise,
            settings=task.settings,
            shares=task.shares,
        )
        rating_range = task.rating_range
        return calibrated_task(training, rating_range=rating_range, backend=_KERNELS, features=features).task
    if features is not None:
        raise InputError(
            f"{task.algorithm} learns from examples: its catalogue lists their features, and there are no items "
            "to have any; leave catalogue.features out"
        )
    of_examples = ExampleTraining(
        algorithm=example_algorithm_of(task.algorithm),
        promise=settings.promise,
        settings=task.settings,
        shares=task.shares,
    )
    return calibrated_example_task(of_examples)


def job_of(
    settings: FleetSettings,
    state: StateFolder | None = None,
    *,
    promise: Promise | None = None,
    assumptions: tuple[str, ...] = (),
) -> Job:
    """What the round loop is to do: the training, or a query.

    Args:
        settings: of the fleet.
        state: of a query; that of the training if not given.
        promise: of a query; that of the training if not given.
        assumptions: of a query, beyond those of every run.

    Raises:
        InputError: the second server's identity cannot be read.
    """
    features = None
    if state is None:
        state = StateFolder.of(settings)
        features = None if settings.catalogue.features is None else str(state.features)
    keys, chosen, helper = KeysFolder.of(settings), settings.protocol, None
    if chosen.helper is not None:
        try:
            identity = keys.helper_identity.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise InputError(
                f"{keys.helper_identity}: the identity of the second server cannot be read there; it is what "
                "fedboard helper prints, 64 hexadecimal digits"
            ) from error
        helper = HelperServer(
            address=chosen.helper,
            authority=keys.helper_authority,
            identity=identity,
            token=keys.helper_token,
        )
    roster = keys.roster if chosen.settings.get("vouched_by") else None
    return Job(
        folder=str(state.run),
        first_board=str(state.first_board),
        question_key=str(keys.questions),
        privacy=promise or settings.promise,
        protocol=ProtocolChoice(name=chosen.name, settings=chosen.settings, helper=helper, roster=roster),
        rounds=settings.rounds.pace,
        dataset=settings.catalogue.statement,
        assumptions=(*assumptions, who_takes_part(settings)),
        backend=_KERNELS,
        features=features,
        enrolled=settings.capacity,
    )


def who_takes_part(settings: FleetSettings) -> str:
    """For the certificate: what is promised does not count on who is a member when."""
    hidden = (
        ""
        if settings.privacy.adjacency is Adjacency.ADD_REMOVE
        else " That a device joined or left is not hidden, as under this adjacency no number of users is."
    )
    one = settings.capacity.each == 1
    whose = "to one person for one device" if one else "to one device, of one person or a gateway of several"
    each = "nobody is" if one else "nobody who is behind one device alone is"
    return (
        "Devices may join and leave between rounds; what is promised holds for everybody who took "
        "part in any round, "
        f"and counts on no number of members. Each invitation goes {whose}, so that {each} in "
        f"a round twice.{hidden}"
    )
