"""From ``fleet.toml`` to what the server needs: board 0, which states the whole task, and its jobs."""

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
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.server.calibrating import ExampleTraining, Training, calibrated_example_task, calibrated_task
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.features import load_item_features
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.server.catalogue.titles import layout_of, read_titles
from fedboard.server.fleet.job import Job, protocol_of, require_carried
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder, reason_of
from fedboard.server.publication import BoardStore
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.run_spec import HelperServer, Promise, ProtocolChoice

_KERNELS = "numpy"
"""Of the server: they need nothing that is not installed, and boards do not depend on the machine."""


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
