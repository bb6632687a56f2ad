"""A device's configuration: one TOML file that says where ratings, policy, server and boards are."""

import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedboard.client.boards.cache import BoardCache
from fedboard.client.participation.policy import Boards, Policy, Ratings, Section, Server
from fedboard.client.private_files import make_private_folder
from fedboard.client.ratings.store import RatingStore
from fedboard.common.checks import key_sentence
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.budget import Budget

if TYPE_CHECKING:  # what only a device that answers needs is imported when it is opened
    from fedboard.client.boards.seen import CosignedBoards
    from fedboard.client.participation.gate import DeviceGate
    from fedboard.client.participation.ledger import DeviceLedger
    from fedboard.client.participation.records import AskedQuestions, KeptAnswers, RefusalCounts
    from fedboard.client.participation.rounds import Asker, RatingSource
    from fedboard.client.ratings.cohort_file import CohortFile
    from fedboard.client.ratings.examples_file import ExamplesFile
    from fedboard.common.boards.witnesses import Witnesses
    from fedboard.common.protocols.sessions import Voucher


class DeviceConfig(Section, frozen=True, kw_only=True, rename={"board": "boards"}):
    """The whole file; paths are absolute once it is read by ``load_device``."""

    ratings: Ratings
    policy: Policy
    state: Path = Path("state")
    """Folder of the device's own record: ledger, last answers, counts of refusals."""
    server: Server | None = None
    board: Boards = Boards()

    @property
    def ledger(self) -> Path:
        """The device's ledger."""
        return self.state / "ledger.sqlite"

    def open_source(self) -> "RatingStore | CohortFile | ExamplesFile":
        """Open the ratings.

        Raises:
            InputError: nothing usable is there.
        """
        ratings = self.ratings
        if ratings.store is not None:
            return RatingStore.open(ratings.store, first_row=ratings.first_row or 0)
        if ratings.examples is not None:
            from fedboard.client.ratings.examples_file import ExamplesFile

            return ExamplesFile.open(ratings.examples, first_row=ratings.first_row or 0)
        from fedboard.client.ratings.cohort_file import CohortFile

        assert ratings.cohort is not None  # checked by Ratings
        return CohortFile.open(ratings.cohort, first_row=ratings.first_row)

    def open_ledger(self, *, read_only: bool = False) -> "DeviceLedger":
        """Open the device's ledger; to write, it is made on first use.

        Raises:
            InputError: it is not there, or the configuration asks for more than it was made for.
            PrivacyError: tampered with, or another process is answering.
        """
        from fedboard.client.participation.ledger import DeviceLedger

        if not read_only:
            self._make_state_folder()
        if read_only or self.ledger.exists():
            ledger = DeviceLedger.open(self.ledger, read_only=read_only)
        else:
            ledger = DeviceLedger.create(self.ledger, self.policy.limit())
        try:
            _require_same_limit(self.ledger, made_for=ledger.limit, asked=self.policy.limit())
        except InputError:
            ledger.close()
            raise
        return ledger

    def _make_state_folder(self) -> None:
        try:
            make_private_folder(self.state)
        except OSError as error:
            raise InputError(
                f"{self.state}: this folder cannot be made, or not for its owner alone ({error.strerror}); "
                "give it to whoever runs the device, or name another one as state"
            ) from error

    def asker(self) -> "Asker":
        """Whose questions it answers: those of the server whose key ``[server]`` names, and nobody's without one.

        Raises:
            InputError: the key cannot be read.
        """
        from fedboard.client.participation.followed_server import server_of
        from fedboard.client.participation.rounds import Asker

        if self.server is None or self.server.question_key is None:
            return Asker(server=None)
        place = self.board.source
        pinned = server_of(
            self.server.question_key,
            kept=self.state / "questions",
            source=place,
            authority=None if place is None else self.authority(place),
            witnesses=self.witnesses,
        )
        return Asker(
            server=pinned,
            largest=self.server.max_question_megabytes << 20,
            largest_answer=self.server.max_answer_megabytes << 20,
        )

    def voucher(self) -> "Voucher | None":
        """The device's identity, and whom it believes about other devices; None where the policy names nobody.

        Raises:
            InputError: no identity is named, or it cannot be read.
        """
        if self.policy.vouched_by is None or self.server is None:
            return None
        from fedboard.client.participation.records import NewestRoster
        from fedboard.common.boards.roster import IdentityKey
        from fedboard.common.protocols.sessions import Voucher

        if self.server.identity_key is None:
            raise InputError(
                "[policy] names vouched_by, and [server] no identity_key by which others would know this device; "
                "make one with: fedboard keys new identity"
            )
        return Voucher(
            identity=IdentityKey.load(self.server.identity_key),
            authority=bytes.fromhex(self.policy.vouched_by),
            admit=NewestRoster(self.state / "rosters.json").admit,
        )

    def answers(self, *, server: str = "") -> "KeptAnswers":
        """The last answers, to be sent again where the server lost them.

        Args:
            server: name of its key, see ``Asker.id``; whoever only deletes them needs none.
        """
        from fedboard.client.participation.records import KeptAnswers

        seconds = self.policy.answers_kept_hours * 3600
        return KeptAnswers(self.state / "answers", server=server, seconds=seconds)

    def refusals(self) -> "RefusalCounts":
        """How often it refused.

        Raises:
            InputError: the file is damaged.
        """
        from fedboard.client.participation.records import RefusalCounts

        return RefusalCounts(self.state / "refusals.json")

    def asked(self) -> "AskedQuestions":
        """The questions that it was asked, in words.

        Raises:
            InputError: the file is damaged.
        """
        from fedboard.client.participation.records import AskedQuestions

        return AskedQuestions(self.state / "questions.json")

    def authority(self, source: str) -> Path | None:
        """PEM file of the authority to trust at a source of boards; None for the system's."""
        if self.board.ca_certificate is not None or self.server is None:
            return self.board.ca_certificate
        return None if source.startswith("https:") else self.server.authority

    def board_cache(self) -> BoardCache:
        """The boards that were fetched."""
        return BoardCache(self.board.cache, max_bytes=self.board.max_bytes)

    @property
    def witnesses(self) -> "Witnesses | None":
        """Who must have cosigned a board; None for nobody."""
        if not self.board.witnesses:
            return None
        from fedboard.common.boards.witnesses import Witnesses

        return Witnesses.of(self.board.witnesses, self.board.cosignatures)

    def cosigned_boards(self) -> "CosignedBoards | None":
        """The boards here that enough witnesses have cosigned; None without witnesses.

        Raises:
            InputError: the key that signs boards cannot be read.
        """
        witnesses = self.witnesses
        if witnesses is None:
            return None
        from fedboard.client.boards.seen import CosignedBoards, Trust
        from fedboard.common.boards.board_signature import PinnedKey

        if self.board.public_key is not None:  # a root that they have signed may have named others
            pinned = PinnedKey.read(self.board.public_key, witnesses=witnesses)
            witnesses = Trust(pinned, self.board.cache).keys.witnesses or witnesses
        return CosignedBoards(witnesses, self.board.cache)

    def published_boards(self) -> BoardCache:
        """The same, for the gate: with ``published_only`` or witnesses it fetches what it misses, where it knows
        from whom.

        Raises:
            InputError: key or certificate of the source cannot be read.
        """
        board = self.board
        wanted = self.policy.published_only or self.witnesses is not None
        if not wanted or board.source is None or board.public_key is None:
            return self.board_cache()
        from fedboard.client.boards.fetching_cache import FetchingCache

        return FetchingCache(
            board.cache,
            max_bytes=board.max_bytes,
            source=board.source,
            public_key=board.public_key,
            authority=self.authority(board.source),
            simulation=self.policy.seeded_noise,
            witnesses=self.witnesses,
        )


def load_device(path: Path) -> DeviceConfig:
    """Read a device's configuration; paths in it are relative to its own folder.

    Raises:
        InputError: not there, not TOML, or a key or value that is not one; says which.
    """
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: no device is configured there ({error.strerror}); make one with `fedboard ratings init`"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML ({error})") from error
    folder = path.resolve().parent

    def convert(kind: type, value: object) -> object:
        if kind is Path and isinstance(value, str):
            return folder / value
        raise TypeError(f"must be the text of a {kind.__name__.lower()}")  # msgspec adds the place

    try:
        config = msgspec.convert(plain, DeviceConfig, dec_hook=convert)
    except (msgspec.ValidationError, InputError, PrivacyError) as error:
        raise InputError(f"{path}: {key_sentence(error, DeviceConfig)}") from None
    board = msgspec.structs.replace(config.board, cache=folder / config.board.cache)
    return msgspec.structs.replace(config, state=folder / config.state, board=board)


@contextmanager
def open_device(path: Path) -> "Iterator[tuple[RatingSource, DeviceGate]]":
    """Open what answers for a device: its ratings and its gate; one process at a time. Kept answers whose time is
    over are erased.

    Args:
        path: its TOML file.

    Raises:
        InputError: configuration, ratings or state cannot be used as they are.
        PrivacyError: the ledger was tampered with, or another process is answering for this device.
        StorageError: a file is damaged or cannot be written.
    """
    from fedboard.client.participation.gate import DeviceGate
    from fedboard.client.participation.records import BookedRounds

    config = load_device(path)
    with ExitStack() as stack:
        ledger = stack.enter_context(config.open_ledger())
        source = config.open_source()
        if isinstance(source, RatingStore):
            stack.enter_context(source)
        asker = config.asker()
        answers = config.answers(server=asker.id)
        answers.expire()
        gate = DeviceGate(
            policy=config.policy,
            ledger=ledger,
            answers=answers,
            asker=asker,
            refusals=config.refusals(),
            booked=BookedRounds(config.state / "booked.json"),
            cache=config.published_boards(),
            cosigned=config.cosigned_boards(),
            voucher=config.voucher(),
            asked=config.asked(),
        )
        yield source, gate


def _require_same_limit(place: Path, *, made_for: Budget, asked: Budget) -> None:
    same_terms = (made_for.delta, made_for.adjacency) == (asked.delta, asked.adjacency)
    if same_terms and asked.epsilon <= made_for.epsilon:
        return
    raise InputError(
        f"{place} was made for at most epsilon {made_for.epsilon:g} at delta {made_for.delta:g}, "
        f"{made_for.adjacency}; the policy may ask for a smaller epsilon, but not for epsilon {asked.epsilon:g} "
        f"at delta {asked.delta:g}, {asked.adjacency}"
    )
