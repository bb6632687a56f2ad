"""One round of two servers: the leader's session and a client's."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import ResidueArray
from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.frame import NoFields, Shapes, pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import KEY_BYTES, Envelope
from fedboard.common.protocol import Given
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import own_stddevs
from fedboard.common.protocols.two_server.bins import SEED_BYTES
from fedboard.common.protocols.two_server.helper import NOISE_RATIO, Helper, HelperPart, RoundKey
from fedboard.common.protocols.two_server.shares import Layout, ShareSums, Split, digest_of

_ASK, _ROWS = "two-server-ask", "two-server-rows"
_ASK_SHAPES: Shapes = {"key": ("u1", (KEY_BYTES,)), "identity": ("u1", (32,)), "signature": ("u1", (64,))}
_MOST_BYTES = 1 << 31
_ROOM = 1 << 13
_DIGEST_BYTES = 32
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LeaderSession:
    """The first server's side: one step, which asks everybody."""

    about: bytes
    clients: frozenset[str]
    layout: Layout
    helper: Helper
    key: RoundKey
    survivors: int
    asks_contributions: bool = True
    _taken: dict[str, int] = field(default_factory=dict)
    """Users of each client that counts."""
    _share: ShareSums = field(init=False)
    _sums: DenseSums | None = None

    def __post_init__(self) -> None:
        """Nothing is added up yet."""
        self._share = ShareSums(self.layout, party=0)

    def outgoing(self) -> dict[str, bytes]:
        """The helper's round key to everybody."""
        return dict.fromkeys(sorted(self.clients), asking(self.key))

    def take(self, client: str, reply: bytes) -> None:
        """Hand the helper its part, and add the other if the helper takes it.

        Raises:
            RefusedError: it does not count here or there.
        """
        if client not in self.clients:
            raise RefusedError(Refusal.UNKNOWN_NODE)
        if client in self._taken:
            raise RefusedError(Refusal.DUPLICATE)
        keys, seed, others, sealed = _read_rows(reply, self.layout)
        if sum(self._taken.values()) + keys.shape[0] > self.layout.packing.most_users:
            raise RefusedError(Refusal.TOO_MANY_USERS)
        corrections = self._share.read(keys)
        self.helper.take(self.about, client, HelperPart(keys=keys, sealed=sealed))
        self._share.add(corrections, seed, others)
        self._taken[client] = keys.shape[0]

    def proceed(self) -> bool:
        """Have the helper's total; there is no other step.

        Raises:
            TooFewAnswersError: too few replied, or the helper gives no total.
        """
        if len(self._taken) < self.survivors:
            raise _lost(f"{len(self._taken)} clients answered and at least {self.survivors} make a sum")
        try:
            other = self.helper.total(self.about, tuple(self._taken))
        except RefusedError as error:
            raise _lost(f"the second server gives no total ({error.code})") from error
        packing = self.layout.packing
        if other.dtype != np.uint32 or other.shape != (packing.size,):
            raise _lost("the second server's total is not one of this round")
        sums = packing.unflatten(self._share.vector() + other)
        noise = own_stddevs(packing.requests)  # the helper's: all of each release's
        if not packing.plausible(sums, n_users=sum(self._taken.values()), noise_stddevs=noise):
            # Said here alone: to give the round up would tell the helper, who knows its noise, about the exact sum.
            _log.warning(
                "the sums are larger than honest clients can have made them; the board may be spoilt"
            )
        self._sums = DenseSums(sums=sums, noise_ratio=NOISE_RATIO, residue_bits=packing.residue_bits)
        return False

    def sums(self) -> DenseSums:
        """The sums of everybody who replied, with the helper's noise."""
        assert self._sums is not None  # ``proceed`` comes first
        return self._sums


@dataclass(slots=True, kw_only=True)
class SparseClient:
    """A client's side: shares once what it gives, and repeats it when it is asked again."""

    bound: bytes
    identity: bytes | None
    """Who the helper must be; None for anybody."""
    split: Callable[[Given], Split]
    asked: bytes = b""
    """Digest of the message that was answered."""
    sent: bytes = b""

    def answer(self, message: bytes, given: Given | None) -> bytes:
        """Both servers' shares, the helper's one sealed.

        Raises:
            PrivacyError: a row breaks its bound.
            RefusedError: not the question, another helper, or another question than was answered.
        """
        asked = hashlib.sha256(message).digest()
        if given is None:
            raise RefusedError(Refusal.MALFORMED)
        if self.sent:
            if asked != self.asked:
                raise RefusedError(Refusal.OUT_OF_TURN)
            return self.sent
        key = _read_key(message)
        key.require(bound=self.bound, identity=self.identity)
        envelope = Envelope.to(key.key, about=self.bound)
        self.sent, self.asked = _rows(self.split(given), envelope), asked
        return self.sent

    def to_bytes(self) -> bytes:
        """What was answered with what, or nothing yet."""
        return self.asked + self.sent

    def restore(self, state: bytes) -> None:
        """Go on from ``to_bytes``."""
        self.asked, self.sent = state[:_DIGEST_BYTES], state[_DIGEST_BYTES:]


def asking(key: RoundKey) -> bytes:
    """The question: who the helper is and what to seal for it."""
    arrays = {name: np.frombuffer(getattr(key, name), dtype=np.uint8) for name in _ASK_SHAPES}
    return pack_frame(_ASK, {}, arrays)


def _rows(shared: Split, envelope: Envelope) -> bytes:
    sealed = envelope.seal(shared.seeds[1] + digest_of(shared.keys))
    arrays: dict[str, NDArray[Any]] = {
        "keys": shared.keys,
        "seed": np.frombuffer(shared.seeds[0], dtype=np.uint8),
        "others": shared.others,
        "sealed": np.frombuffer(sealed, dtype=np.uint8),
    }
    return pack_frame(_ROWS, {}, arrays)


def _read_rows(reply: bytes, layout: Layout) -> tuple[NDArray[np.uint8], bytes, ResidueArray, bytes]:
    """A client's reply as the leader reads it: keys, the leader's seed and share, and the helper's sealed part."""
    most = _ROOM + layout.packing.most_users * layout.most_bytes + 4 * layout.n_others
    frame = unpack_frame(reply, kinds=(_ROWS,), limit=min(most, _MOST_BYTES))
    frame.read(NoFields)
    shapes: Shapes = {
        "keys": ("u1", (None, None)),
        "seed": ("u1", (SEED_BYTES,)),
        "others": ("u4", (layout.n_others,)),
        "sealed": ("u1", (None,)),
    }
    keys, seed, others, sealed = frame.arrays_as(shapes)
    return keys, seed.tobytes(), others, sealed.tobytes()


def _read_key(message: bytes) -> RoundKey:
    frame = unpack_frame(message, kinds=(_ASK,), limit=_ROOM)
    frame.read(NoFields)
    key, identity, signature = frame.arrays_as(_ASK_SHAPES)
    return RoundKey(key=key.tobytes(), identity=identity.tobytes(), signature=signature.tobytes())


def _lost(why: str) -> TooFewAnswersError:
    return TooFewAnswersError(f"{why}; nothing was released", given=True)
