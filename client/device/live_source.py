"""What a device did and what it has left, as its owner watches it; nothing of her ratings."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fedboard.client.device.config import DeviceConfig
from fedboard.client.device.ledger import GivenRelease
from fedboard.client.device.policy import Policy
from fedboard.client.device.status import by_run, given_so_far
from fedboard.client.private_files import make_private_folder, write_new_private
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import stamp_of
from fedboard.common.wire.live.feed import State
from fedboard.common.wire.refusals import Refusal

_KEY = "live.key"
_MOST_GIVEN = 200
"""Of the list of answers; older ones are in the sums by run."""
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
    Refusal.NOT_WITNESSED: "too few of your witnesses have seen its board, or they have seen another one",
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
"""Each code in words, for her."""
_LIMITS: Mapping[str, str] = {
    "epsilon_per_run": "most epsilon for one run",
    "scale_down": "gives a smaller part where a run costs more",
    "smallest_scale": "smallest part that is given",
    "least_noise": "least noise multiplier of a release",
    "runs": "runs that may ask",
    "tasks": "tasks that may be asked",
    "protocols": "protocols that may be used",
    "least_survivors": "fewest devices in a masked sum",
    "most_honest": "most honest devices that a run may count on",
    "helper": "second server that is relied on",
    "vouched_by": "who vouches for other devices",
    "least_colluding": "share of colluding devices that a masked sum must bear",
    "catalogues": "catalogues that may be asked about",
    "smallest_catalogue": "smallest catalogue",
    "seeded_noise": "takes simulations, which are not private",
    "published_only": "answers about boards alone that everybody gets",
    "witnesses": "file of the witnesses who must have seen a board",
    "answers_kept_hours": "hours that an answer is kept",
}
"""Fields of a policy that are shown, in words."""

_WITHOUT = {"epsilon_per_run": "the whole limit", "helper": "none", "witnesses": "none"}
"""What it means that a field is left out; for the others, that anything is allowed."""

Tally = Callable[[], Mapping[str, Any]]
"""What the process that serves the page did since it began."""


@dataclass(slots=True, kw_only=True)
class DeviceSource:
    """What is watched of a device.

    Guarantee: neither a rating nor an item, nor how many she holds, is in what it tells; the store is not opened.
    """

    config: DeviceConfig
    tally: Tally
    _given: tuple[tuple[GivenRelease, ...], float] = ((), 0.0)
    _seen: object = None
    _files: tuple[Path, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Name the files that are watched."""
        ledger = self.config.ledger
        beside = (self.config.state / "refusals.json", self.config.board.cache)
        self._files = (ledger, ledger.with_name(f"{ledger.name}-wal"), *beside)

    def signature(self) -> object:
        """Of the device's record and of what this process did."""
        return self._stamps(), tuple(sorted(self.tally().items()))

    def is_due(self) -> bool:
        """Nothing is put off."""
        return False

    def read(self) -> State:
        """The state as it is now."""
        name = self.config.state.resolve().parent.name
        try:
            state, told, found = "running", "This device answers what its policy allows.", self._read()
        except (FedboardError, OSError) as error:
            state, told, found = "unreadable", f"This device's record cannot be read. {error}", {}
        return {"kind": "device", "name": name, "state": state, "told": told, **found}

    def _read(self) -> dict[str, Any]:
        seen = self._stamps()[:2]
        if seen != self._seen:
            self._given = given_so_far(self.config)
            self._seen = seen
        (given, spent), limit = self._given, self.config.policy.limit()
        boards = self.config.board_cache().boards() if self.config.board.cache.exists() else ()
        return {
            "budget": {
                "epsilon": limit.epsilon,
                "delta": limit.delta,
                "adjacency": str(limit.adjacency),
                "spent": spent,
                "left": max(limit.epsilon - spent, 0.0),
            },
            "asked": dict(self.tally()),
            "runs": [msgspec.to_builtins(run) for run in by_run(given, limit.delta)],
            "given": [_answer(entry) for entry in given[-_MOST_GIVEN:]],
            "refused": self._refused(),
            "limits": limits_of(self.config.policy),
            "boards": [{"version": board.version, "digest": board.digest} for board in boards],
        }

    def _refused(self) -> list[dict[str, Any]]:
        found = sorted(self.config.refusals().by_code().items())
        return [{"code": code.value, "times": times, "told": REASONS[code]} for code, times in found]

    def _stamps(self) -> Sequence[object]:
        return tuple(map(stamp_of, self._files))


def limits_of(policy: Policy) -> list[dict[str, str]]:
    """What a policy allows, in words; a list that allows everything is said to do so."""
    return [{"name": told, "value": _worded(name, getattr(policy, name))} for name, told in _LIMITS.items()]


def live_key(config: DeviceConfig) -> str:
    """The secret part of the page's address, the same at each start: other accounts of this machine do not know it.

    Raises:
        InputError: it cannot be kept where the device's record is.
    """
    path = config.state / _KEY
    try:
        make_private_folder(config.state)
        if not path.exists():
            write_new_private(path, secrets.token_urlsafe().encode())
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the key of the live page cannot be kept there ({error}); mend that"
        ) from error
    if len(found) < 40 or not found.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"{path}: this is no key of a live page; delete the file, and a new one is made")
    return found


def _answer(entry: GivenRelease) -> dict[str, Any]:
    return {
        "run": entry.run,
        "release": entry.release,
        "round": None if entry.about is None else entry.about.round,
        "covers": entry.covers,
        "scale": entry.scale,
        "noise_multiplier": entry.noise_multiplier,
    }


def _worded(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return _WITHOUT.get(name, "any")
    return f"{value:g}" if isinstance(value, float) else str(value)
