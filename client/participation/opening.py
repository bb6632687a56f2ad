"""Opening what answers for a device, as its configuration says: ratings, ledger, whom it answers, and the gate."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedboard.client.boards.cache import BoardCache
from fedboard.client.participation.config import DeviceConfig, load_device
from fedboard.client.participation.contributing import RatingSource
from fedboard.client.participation.followed_server import server_of
from fedboard.client.participation.gate import DeviceGate
from fedboard.client.participation.ledger import DeviceLedger
from fedboard.client.participation.records import BookedRounds, NewestRoster
from fedboard.client.participation.rounds import Asker
from fedboard.client.private_files import make_private_folder
from fedboard.client.ratings.store import RatingStore
from fedboard.common.boards.roster import IdentityKey
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.protocols.sessions import Voucher


def open_source(config: DeviceConfig) -> RatingSource:
    """Open the ratings: one person's, or those of many at a gateway.

    Raises:
        InputError: nothing usable is there.
    """
    ratings = config.ratings
    if ratings.store is not None:
        return RatingStore.open(ratings.store, first_row=ratings.first_row or 0)
    if ratings.examples is not None:
        from fedboard.client.ratings.examples_file import ExamplesFile

        return ExamplesFile.open(ratings.examples, first_row=ratings.first_row or 0)
    from fedboard.client.ratings.cohort_file import CohortFile

    assert ratings.cohort is not None  # checked by Ratings
    return CohortFile.open(ratings.cohort, first_row=ratings.first_row)


def open_ledger(config: DeviceConfig, *, read_only: bool = False) -> DeviceLedger:
    """Open the device's ledger; to write, it is made on first use.

    Raises:
        InputError: it is not there, or the configuration asks for more than it was made for.
        PrivacyError: tampered with, or another process is answering.
    """
    place, asked = config.ledger, config.policy.limit()
    if not read_only:
        _make_state_folder(config.state)
    if read_only or place.exists():
        ledger = DeviceLedger.open(place, read_only=read_only)
    else:
        ledger = DeviceLedger.create(place, asked)
    try:
        _require_same_limit(place, made_for=ledger.limit, asked=asked)
    except InputError:
        ledger.close()
        raise
    return ledger


def _make_state_folder(state: Path) -> None:
    try:
        make_private_folder(state)
    except OSError as error:
        raise InputError(
            f"{state}: this folder cannot be made, or not for its owner alone ({error.strerror}); "
            "give it to whoever runs the device, or name another one as state"
        ) from error


def _require_same_limit(place: Path, *, made_for: Budget, asked: Budget) -> None:
    same_terms = (made_for.delta, made_for.adjacency) == (asked.delta, asked.adjacency)
    if same_terms and asked.epsilon <= made_for.epsilon:
        return
    raise InputError(
        f"{place} was made for at most epsilon {made_for.epsilon:g} at delta {made_for.delta:g}, "
        f"{made_for.adjacency}; the policy may ask for a smaller epsilon, but not for epsilon {asked.epsilon:g} "
        f"at delta {asked.delta:g}, {asked.adjacency}"
    )


def asker_of(config: DeviceConfig) -> Asker:
    """Whose questions it answers: those of the server whose key ``[server]`` names, and nobody's without one.

    Raises:
        InputError: the key cannot be read.
    """
    server, source = config.server, config.board.source
    if server is None or server.question_key is None:
        return Asker(server=None)
    pinned = server_of(
        server.question_key,
        kept=config.state / "questions",
        source=source,
        authority=None if source is None else config.authority(source),
        witnesses=config.witnesses,
    )
    return Asker(
        server=pinned,
        largest=server.max_question_megabytes << 20,
        largest_answer=server.max_answer_megabytes << 20,
    )


def voucher_of(config: DeviceConfig) -> Voucher | None:
    """The device's identity, and whom it believes about other devices; None where the policy names nobody.

    Raises:
        InputError: no identity is named, or it cannot be read.
    """
    authority, server = config.policy.vouched_by, config.server
    if authority is None or server is None:
        return None
    if server.identity_key is None:
        raise InputError(
            "[policy] names vouched_by, and [server] no identity_key by which others would know this device; "
            "make one with: fedboard keys new identity"
        )
    return Voucher(
        identity=IdentityKey.load(server.identity_key),
        authority=bytes.fromhex(authority),
        admit=NewestRoster(config.state / "rosters.json").admit,
    )


def published_boards(config: DeviceConfig) -> BoardCache:
    """The boards that were fetched; with ``published_only`` or witnesses the cache fetches what it misses, where it
    knows from whom.

    Raises:
        InputError: key or certificate of the source cannot be read.
    """
    board = config.board
    wanted = config.policy.published_only or config.witnesses is not None
    if not wanted or board.source is None or board.public_key is None:
        return config.board_cache()
    from fedboard.client.boards.fetching_cache import FetchingCache  # brings HTTP

    return FetchingCache(
        board.cache,
        max_bytes=board.max_bytes,
        source=board.source,
        public_key=board.public_key,
        authority=config.authority(board.source),
        simulation=config.policy.seeded_noise,
        witnesses=config.witnesses,
    )


@contextmanager
def open_device(path: Path) -> Iterator[tuple[RatingSource, DeviceGate]]:
    """Open what answers for a device: its ratings and its gate; one process at a time. Kept answers whose time is
    over are erased.

    Args:
        path: its TOML file.

    Raises:
        InputError: configuration, ratings or state cannot be used as they are.
        PrivacyError: the ledger was tampered with, or another process is answering for this device.
        StorageError: a file is damaged or cannot be written.
    """
    config = load_device(path)
    with ExitStack() as stack:
        ledger = stack.enter_context(open_ledger(config))
        source = open_source(config)
        if isinstance(source, RatingStore):
            stack.enter_context(source)
        asker = asker_of(config)
        answers = config.answers(server=asker.id)
        answers.expire()
        gate = DeviceGate(
            policy=config.policy,
            ledger=ledger,
            answers=answers,
            asker=asker,
            refusals=config.refusals(),
            booked=BookedRounds(config.state / "booked.json"),
            cache=published_boards(config),
            cosigned=config.cosigned_boards(),
            voucher=voucher_of(config),
            asked=config.asked(),
        )
        yield source, gate
