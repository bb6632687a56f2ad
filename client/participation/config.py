"""A device's configuration: one TOML file that says where ratings, policy, server and boards are; and a new device,
whose file has all of them.
"""

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedboard.client.boards.cache import BoardCache
from fedboard.client.participation.policy import Boards, Policy, Ratings, Section, Server
from fedboard.client.participation.records import AskedQuestions, KeptAnswers, RefusalCounts
from fedboard.client.ratings.store import RatingStore
from fedboard.common.checks import key_sentence
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency

if TYPE_CHECKING:  # cryptography, which a reader without witnesses does without
    from fedboard.client.boards.seen import CosignedBoards
    from fedboard.common.boards.witnesses import Witnesses


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

    def answers(self, *, server: str = "") -> KeptAnswers:
        """The last answers, to be sent again where the server lost them.

        Args:
            server: name of its key, see ``Asker.id``; whoever only deletes them needs none.
        """
        seconds = self.policy.answers_kept_hours * 3600
        return KeptAnswers(self.state / "answers", server=server, seconds=seconds)

    def refusals(self) -> RefusalCounts:
        """How often it refused.

        Raises:
            InputError: the file is damaged.
        """
        return RefusalCounts(self.state / "refusals.json")

    def asked(self) -> AskedQuestions:
        """The questions that it was asked, in words.

        Raises:
            InputError: the file is damaged.
        """
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


_TEMPLATE = """\
# What this device gives, to whom, and where its files are. Paths are relative to this file.

[ratings]
store = "ratings.sqlite"        # one person's ratings; see: fedboard ratings --help
# cohort = "cohort"             # instead, at a gateway: a folder with the ratings of many users
# first_row = 0                 # number of the (first) user, where a run numbers its users

[policy]
# Whatever a server asks, everything that this device ever gives costs at most this much privacy.
# The limit is written into the ledger at the first use; later it can be lowered here, not raised.
epsilon = {epsilon}
delta = {delta}
adjacency = "{adjacency}"
# epsilon_per_run = 1.0         # and one run at most this much
# scale_down = true             # where a run costs more: give a smaller part of yourself, in all its rounds
# smallest_scale = 0.1          # ... but at least this part, or nothing
# least_noise = 1.0             # refuse runs with a release of less noise (its noise multiplier)
# runs = ["movies-*"]           # answer these runs alone; * stands for anything
# tasks = ["residual"]          # ... these tasks alone
# questions = ["mean of ratings", "* of counts"]  # answer these questions to a fleet; left out: none
# epsilon_of_questions = 1.0    # and all questions together at most this much
# protocols = ["trusted"]       # ... these aggregation protocols alone
# least_survivors = 5           # where contributions are masked: in sums of at least so many clients alone
# most_honest = 20              # where clients add the noise: runs that count on so many honest ones at most
# helper = "0000000000000000000000000000000000000000000000000000000000000000"  # the second server (fedboard helper)
# vouched_by = "0000000000000000000000000000000000000000000000000000000000000000"  # (fedboard keys sign)
# least_colluding = 0.1         # with vouched_by: sums that bear so many colluding devices of the list, at least
# catalogues = ["..."]          # answer about these catalogues alone (digests, from: fedboard status)
# smallest_catalogue = 50       # fewer items make the question too pointed
# seeded_noise = true           # take simulations too, runs and boards, whose noise the server can remove
# published_only = true         # answer only about boards that come, signed for everybody, from [boards]
# answers_kept_hours = 24.0     # how long a server that lost an answer may have the same one again

# [server]                      # a device that trains
# address = "fedboard.example.org:8443"
# authority = "authority.pem"   # who vouches for it
# key = "device.key"            # by which it knows this device; made by: fedboard client join
# question_key = "questions.pub"  # who may ask: the key that this server signs its questions with
# identity_key = "identity.key" # by which other devices know this one; see: fedboard keys new identity
# max_question_megabytes = 64   # larger questions (with the board) are refused unread
# max_answer_megabytes = 256    # as are questions whose answer would hold sums of more than that

# [boards]                      # where boards come from
# source = "fedboard.example.org:8443"
# public_key = "boards.pub"
# ca_certificate = "ca.pem"     # who vouches for the source, where it is not the one of [server]
# cache = "boards"
# max_bytes = 1073741824        # room for boards
# witnesses = ["0000000000000000000000000000000000000000000000000000000000000000"]  # (keys new witness) ...
# cosignatures = 1              # ... answer only about boards that so many of them have cosigned: more than half
"""


def make_device(folder: Path, *, epsilon: float, delta: float, adjacency: str) -> Path:
    """Make a device in a folder.

    Args:
        folder: made if it is missing; readable by its owner alone if so.
        epsilon: her limit over all runs. Public.
        delta: of that limit. Public.
        adjacency: of that limit. Public.

    Returns:
        The configuration file.

    Raises:
        InputError: a device is there already.
        PrivacyError: epsilon or delta is out of range.
    """
    Policy(epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency))
    path = folder / "device.toml"
    if path.exists():
        raise InputError(f"{path}: there is a device already; edit that file, or choose another folder")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        RatingStore.create(folder / "ratings.sqlite").close()
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
            stream.write(_TEMPLATE.format(epsilon=float(epsilon), delta=float(delta), adjacency=adjacency))
    except OSError as error:
        raise InputError(f"{folder}: no device can be made there ({error.strerror})") from error
    return path
