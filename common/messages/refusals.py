"""Why a message is not taken: fixed codes, so that no text from a device or a hostile peer travels on."""

from enum import StrEnum

from fedboard.common.errors import FedboardError


class Refusal(StrEnum):
    """The code of a refusal; all that is ever said, counted or logged of it."""

    MALFORMED = "malformed"
    """The bytes are not a message of this kind."""
    TOO_LARGE = "too-large"
    """More bytes, rows or entries than are taken."""
    WRONG_VERSION = "wrong-version"
    """A message format that this version does not read."""
    WRONG_RUN = "wrong-run"
    WRONG_ROUND = "wrong-round"
    WRONG_BOARD = "wrong-board"
    """Made from another board than the one that was asked about."""
    WRONG_FORM = "wrong-form"
    """Another protocol or wire form than was asked for."""
    TOO_MANY_USERS = "too-many-users"
    """More rows than the node was admitted for."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """Numbers that break the bounds of the releases."""
    UNKNOWN_NODE = "unknown-node"
    DUPLICATE = "duplicate"
    """A second answer of one node to one round."""
    LATE = "late"
    """An answer to a round that is over."""
    UNREACHABLE = "unreachable"
    """The transport reports a failure in the place of an answer."""

    UNSIGNED = "unsigned"
    """A question without a signature."""
    BAD_SIGNATURE = "bad-signature"
    """A question that the server whose key is pinned has not signed."""
    EXPIRED = "expired"
    """A signed question whose time is over, or lasts longer than is taken."""
    BAD_BOARD = "bad-board"
    """The board is damaged, of an unknown task, or its certificate does not hold."""
    OTHER_HISTORY = "other-history"
    """The board does not continue the one that was answered before."""
    NOT_ALLOWED = "not-allowed"
    """The user's policy does not allow this run."""
    OTHER_ADJACENCY = "other-adjacency"
    """Its guarantee is for another adjacency than the user's limit."""
    NOT_PRIVATE = "not-private"
    """Its noise can be reproduced from a seed, or a release has less of it than the user asks for."""
    SINGLES_OUT = "singles-out"
    """A catalogue that is too small, names an item twice, or is not one that the user agreed to."""
    NOT_PUBLISHED = "not-published"
    """The board is not among those that were published to everybody."""
    NOT_WITNESSED = "not-witnessed"
    """Too few of the user's witnesses have seen the board in the run's log, or they have seen another one."""
    OVER_LIMIT = "over-limit"
    """It would take the user beyond her own limit."""
    ANSWERED_BEFORE = "answered-before"
    """This release was answered already and the answer is no longer kept."""
    NO_RATINGS = "no-ratings"
    """There is nothing to answer from."""
    BAD_PROTOCOL = "bad-protocol"
    """The protocol is unknown here, or its parameters are not ones that keep what it promises."""
    TOO_FEW = "too-few"
    """The protocol would make sums of fewer clients than the user asks for."""
    OTHER_ROSTER = "other-roster"
    """Who vouches for the clients is not whom the user relies on, or the list of devices is over, older than one
    that was seen, or lacks this device."""
    NOT_CONFIRMED = "not-confirmed"
    """Too few clients have signed the set of survivors that this one was told; nothing was unmasked."""
    OTHER_HELPER = "other-helper"
    """The second server is not the one that the user relies on."""
    NO_SESSION = "no-session"
    """A later step of a session that is not known here, or no longer."""
    OUT_OF_TURN = "out-of-turn"
    """A step of a protocol that is not the next one, or that was answered already to another message."""
    INTERNAL = "internal"
    """The client failed; the reason stays with it."""


class RefusedError(FedboardError):
    """A message was not taken, for a reason that is a code and nothing more."""

    def __init__(self, code: Refusal) -> None:
        """Say the code alone."""
        super().__init__(code.value)
        self.code = code
