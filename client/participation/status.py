"""What a device has given so far, and what it has left: read from its own record, while it may be answering."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from fedboard.client.participation.config import DeviceConfig
from fedboard.client.participation.ledger import GivenRelease
from fedboard.client.participation.opening import open_ledger, open_source
from fedboard.client.participation.promises import catalogue_digest
from fedboard.client.ratings.store import RatingStore
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.protection import protection_of_board

REASONS: Mapping[Refusal, str] = {
    Refusal.MALFORMED: "the question could not be read",
    Refusal.TOO_LARGE: "it was larger than this device takes",
    Refusal.WRONG_VERSION: "its server runs a version whose sealed replies are of another format; both need one",
    Refusal.WRONG_RUN: "it was of another run than the one under way",
    Refusal.WRONG_ROUND: "it was of another round than the one under way",
    Refusal.WRONG_BOARD: "it was about another board",
    Refusal.WRONG_FORM: "it asked for another protocol or form",
    Refusal.TOO_MANY_USERS: "there are more users here than were admitted",
    Refusal.OUT_OF_BOUNDS: "its numbers were out of bounds",
    Refusal.UNKNOWN_NODE: "this device is not admitted there",
    Refusal.DUPLICATE: "it was answered already",
    Refusal.LATE: "its round was over",
    Refusal.UNREACHABLE: "the transport failed",
    Refusal.UNSIGNED: "nobody had signed it",
    Refusal.BAD_SIGNATURE: "the server that this device trusts had not signed it",
    Refusal.EXPIRED: "its time was over",
    Refusal.BAD_BOARD: "its board was damaged, or the board's certificate does not hold",
    Refusal.OTHER_HISTORY: "its board does not continue the one that was answered before",
    Refusal.NOT_ALLOWED: "your policy does not allow this run",
    Refusal.OTHER_ADJACENCY: "its guarantee is for another adjacency than your limit",
    Refusal.NOT_PRIVATE: "its noise can be reproduced, or is less than you ask for",
    Refusal.SINGLES_OUT: "its catalogue is too small, names an item twice, or is not one that you agreed to",
    Refusal.NOT_PUBLISHED: "its board is not among those that everybody gets",
    Refusal.NOT_WITNESSED: "too few of your witnesses have cosigned its board, or they have cosigned another one",
    Refusal.OVER_LIMIT: "it would take you beyond your limit",
    Refusal.ANSWERED_BEFORE: "it was answered before, and that answer is no longer kept",
    Refusal.NO_RATINGS: "there are no ratings to answer from",
    Refusal.BAD_PROTOCOL: "its protocol is unknown here, or does not keep what it promises",
    Refusal.TOO_FEW: "it would make sums of fewer devices than you ask for",
    Refusal.OTHER_ROSTER: "nobody whom you rely on vouches for the devices of its sums, or for this one",
    Refusal.NOT_CONFIRMED: "too few devices confirmed the sum that it was to help open",
    Refusal.OTHER_HELPER: "its second server is not the one that you rely on",
    Refusal.NO_SESSION: "it belongs to a session that is not known here",
    Refusal.OUT_OF_TURN: "it came out of turn",
    Refusal.INTERNAL: "this device failed; its log says why",
}
"""Each code in words, for whoever owns the device."""


def status_of(config: DeviceConfig) -> dict[str, Any]:
    """A device's own state, as JSON: what it gave to which runs, was asked, refused and holds,
    and its limits. Private. Nothing is changed.

    ``left`` is epsilon of the limit less what is spent; the cost of several runs adds up more slowly than this.
    ``questions`` are the newest that it was asked, answered or not; ``users`` are 1, or those of a gateway, where
    ``ratings`` is None.

    Raises:
        InputError: a file is missing or damaged.
        PrivacyError: the ledger was tampered with.
    """
    given, spent = given_so_far(config)
    limit = config.policy.limit()
    n_users, n_ratings = _sizes(config)
    cached = config.board_cache().boards() if config.board.cache.exists() else ()
    return {
        "epsilon": {"spent": spent, "limit": limit.epsilon, "left": max(limit.epsilon - spent, 0.0)},
        "delta": limit.delta,
        "adjacency": str(limit.adjacency),
        "runs": _by_run(given, limit.delta),
        "refusals": {code.value: number for code, number in config.refusals().by_code().items()},
        "questions": [
            {
                "run": one.run,
                "title": one.title,
                "question": one.sentence,
                "board": one.digest,
                "answered": one.answered,
            }
            for one in config.asked().all()
        ],
        "users": n_users,
        "ratings": n_ratings,
        "boards": [
            {
                "version": board.version,
                "digest": board.digest,
                "bytes": board.n_bytes,
                **_about(board.path),
            }
            for board in cached
        ],
        "limits": msgspec.to_builtins(config.policy),
    }


def given_so_far(config: DeviceConfig) -> tuple[tuple[GivenRelease, ...], float]:
    """Everything that was given, oldest first, and its epsilon at the delta of the limit. Private.

    Raises:
        InputError: the ledger is damaged.
        PrivacyError: it was tampered with.
    """
    if not config.ledger.exists():
        return (), 0.0
    with open_ledger(config, read_only=True) as ledger:
        return ledger.given(), ledger.spent().epsilon


def _by_run(given: Sequence[GivenRelease], delta: float) -> list[dict[str, Any]]:
    """What each run got, in the order in which they began: versions of the boards that were answered, which part of
    themselves they gave (1 for all), what this run alone costs them.
    """
    runs: dict[str, list[GivenRelease]] = {}
    for entry in given:
        runs.setdefault(entry.run, []).append(entry)
    return [
        {
            "run": run,
            "rounds": sorted({entry.about.round for entry in entries if entry.about is not None}),
            "releases": len(entries),
            "scale": min(entry.scale for entry in entries),
            "epsilon": epsilon_of(delta, mu=compose(entry.noise_multiplier for entry in entries)),
        }
        for run, entries in runs.items()
    ]


def _sizes(config: DeviceConfig) -> tuple[int, int | None]:
    source = open_source(config)
    if not isinstance(source, RatingStore):
        return source.n_users, None
    with source:
        return 1, len(source)


def _about(path: Path) -> dict[str, Any]:
    """What its noise is, the digest by which a policy names its catalogue, how many rounds came to something."""
    try:
        board = Board.load(path)
        rounds = None if board.certificate is None else Certificate.from_dict(dict(board.certificate)).rounds
    except InputError:
        return {"noise": "unstated", "catalogue": "damaged", "rounds": None}
    return {
        "noise": protection_of_board(board).value,
        "catalogue": catalogue_digest(board.catalogue),
        "rounds": None if rounds is None else asdict(rounds),
    }
