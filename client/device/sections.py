"""The sections of a device's configuration: ratings, server and boards. The policy is in ``policy``."""

from pathlib import Path

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import parse_address


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section that refuses keys it does not know."""


class Ratings(Section, frozen=True, kw_only=True):
    """``[ratings]``: where they are."""

    store: Path | None = None
    """The store of one person, as ``fedboard ratings init`` makes it."""
    cohort: Path | None = None
    """Instead of it: a folder with the ratings of many users, for a gateway."""
    examples: Path | None = None
    """Instead of them: a CSV file of examples, features with a label, for tasks that learn from those; of one
    person, or of many with a column ``user``."""
    first_row: int | None = None
    """Number of the first user in the population, where a run numbers its users; default 0, or the folder's."""

    def __post_init__(self) -> None:
        """Check that there is one place.

        Raises:
            InputError: none or two.
        """
        if sum(place is not None for place in (self.store, self.cohort, self.examples)) != 1:
            raise InputError("[ratings] needs either store or cohort, or examples")
        if self.first_row is not None and self.first_row < 0:
            raise InputError("first_row must be >= 0")


class Server(Section, frozen=True, kw_only=True):
    """``[server]``: whom a device that trains asks for work."""

    address: str
    """``host:port``."""
    authority: Path
    """PEM file with the certificate of whoever vouches for the server."""
    key: Path
    """PEM file of this device's private key, by which the server knows it."""
    question_key: Path | None = None
    """PEM file of the public key that this server signs its questions with, or a root document that names it;
    nobody else's are answered. Without it none are."""
    identity_key: Path | None = None
    """PEM file of this device's identity (``fedboard keys new identity``), by which other devices know it; needed
    where the policy names ``vouched_by``."""
    max_question_megabytes: int = 64
    """A question with its board of more than so many MiB is refused before it is read; in [1, 2047]."""

    max_answer_megabytes: int = 256
    """An answer that holds sums (form ``dense``, protocols of several steps) of more than so many MiB is refused;
    in [1, 65536]."""

    def __post_init__(self) -> None:
        """Check the form of the address, and the ranges of the sizes.

        Raises:
            InputError: it is no address, or out of range.
        """
        if not 1 <= self.max_question_megabytes <= 2047:
            raise InputError(
                f"max_question_megabytes of [server] must be in [1, 2047], got {self.max_question_megabytes}"
            )
        if not 1 <= self.max_answer_megabytes <= 65536:
            raise InputError(
                f"max_answer_megabytes of [server] must be in [1, 65536], got {self.max_answer_megabytes}"
            )
        parse_address(self.address, name="address of [server]")


class Boards(Section, frozen=True, kw_only=True):
    """``[boards]``: where boards come from, whom one believes about them, and where they are kept."""

    cache: Path = Path("boards")
    """A folder."""
    source: str | None = None
    """Address of a board service, or of a mirror."""
    public_key: Path | None = None
    """The key that signs the boards' manifests, or a root document that names it."""
    ca_certificate: Path | None = None
    """PEM file of the authority that vouches for the source; default: that of ``[server]`` for a board service,
    the system's for a web server."""
    max_bytes: int = 1 << 30
    """Room for cached boards."""
    witnesses: tuple[str, ...] = ()
    """Public keys of witnesses, 64 hexadecimal digits each: nothing is answered about a board that too few of them
    have cosigned, whatever a root says. It implies ``published_only``."""
    cosignatures: int | None = None
    """How many of them must have; more than half. None: as few as that."""

    def __post_init__(self) -> None:
        """Check that so many witnesses say anything.

        Raises:
            InputError: one of them is no key, or too few of them would do.
        """
        if not self.witnesses and self.cosignatures is None:
            return
        from fedboard.common.boards.witnesses import Witnesses  # cryptography, which others can do without

        Witnesses.of(self.witnesses, self.cosignatures)
