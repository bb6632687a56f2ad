"""Why a published board is not taken by a reader: fixed codes, so that no text of a hostile server travels on."""

from enum import StrEnum

from fedboard.common.errors import FedboardError


class FeedCode(StrEnum):
    """The code of a refusal; what is said, counted and logged of it."""

    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    EXPIRED = "expired"
    RATE_LIMITED = "rate-limited"
    NOT_FOUND = "not-found"
    MALFORMED = "malformed"
    TOO_LARGE = "too-large"
    BAD_SIGNATURE = "bad-signature"
    WRONG_RUN = "wrong-run"
    ROLLBACK = "rollback"
    OUT_OF_DATE = "out-of-date"
    BAD_ROOT = "bad-root"
    ROOT_EXPIRED = "root-expired"
    BROKEN_CHAIN = "broken-chain"
    WRONG_DIGEST = "wrong-digest"
    SIMULATION = "simulation"
    NOT_AS_STATED = "not-as-stated"
    NOT_WITNESSED = "not-witnessed"
    SPLIT_VIEW = "split-view"
    LEDGER_CHANGED = "ledger-changed"


_SENTENCES = {
    FeedCode.UNREACHABLE: "the board service did not answer in time; try again later",
    FeedCode.UNTRUSTED: (
        "no authority that is trusted here vouches for the certificate of the board service; "
        "name its own with --authority, or as ca_certificate in [boards] of device.toml"
    ),
    FeedCode.EXPIRED: (
        "the TLS certificate of the board service has expired, or is not valid yet; whoever runs it makes a new "
        "one (fedboard keys renew), or the clock of this machine is wrong"
    ),
    FeedCode.RATE_LIMITED: "the board service is busy and asks to come back later",
    FeedCode.NOT_FOUND: "there is no such board",
    FeedCode.MALFORMED: "what came is not a fedboard manifest or board; it was dropped",
    FeedCode.TOO_LARGE: "the board is larger than this device takes (--max-bytes); nothing more was read",
    FeedCode.BAD_ROOT: (
        "the next root that is offered is not signed by enough keys of the one that is trusted here and of its "
        "own, or is not the next version; it was dropped"
    ),
    FeedCode.ROOT_EXPIRED: (
        "the newest root document, which says who may sign, has expired; its holders sign the next one (fedboard "
        "keys rotate), or somebody keeps it back, or the clock of this machine is wrong"
    ),
    FeedCode.BAD_SIGNATURE: (
        "the manifest is not signed by the pinned key, or by enough of the keys that the newest root names, or it "
        "is of another format than this version reads; it was dropped"
    ),
    FeedCode.WRONG_RUN: "the manifest is of another run than the one that is followed; it was dropped",
    FeedCode.ROLLBACK: (
        "an older board, or an older signature of the same one, is offered than was seen before; it was dropped"
    ),
    FeedCode.OUT_OF_DATE: (
        "the newest manifest that is offered has expired, or is signed in the future: whoever publishes has "
        "stopped to renew it (fedboard keys renew), somebody keeps newer ones back, or the clock of this machine "
        "is wrong"
    ),
    FeedCode.BROKEN_CHAIN: "the board does not continue the one that was seen before; it was dropped",
    FeedCode.WRONG_DIGEST: "the file is not the one that was signed; it was dropped",
    FeedCode.SIMULATION: (
        "the board's noise can be reproduced from its seed: a simulation, not a private release; --simulation "
        "takes it, or seeded_noise in [policy] of device.toml"
    ),
    FeedCode.NOT_WITNESSED: ("too few of your witnesses have cosigned the manifest (yet); it was dropped"),
    FeedCode.SPLIT_VIEW: (
        "the manifest and one that was seen before contradict each other, and both are signed: somebody shows "
        "different boards to different people. Both are kept as contradiction-1.json and contradiction-2.json "
        "beside the boards, and nothing of this run is taken while they are there; show them to others"
    ),
    FeedCode.LEDGER_CHANGED: (
        "the board's ledger is not the one that its manifest states, or does not continue that of an earlier "
        "board: it was rolled back or rewritten; the board was dropped"
    ),
    FeedCode.NOT_AS_STATED: (
        "the board carries no certificate of its own that says of its noise what was signed; it was dropped"
    ),
}


class FeedRefusedError(FedboardError):
    """A board was not taken; whatever was there before is still there."""

    def __init__(self, code: FeedCode) -> None:
        """Say the code and its sentence, nothing of what came."""
        super().__init__(f"{code.value}: {_SENTENCES[code]}")
        self.code = code
