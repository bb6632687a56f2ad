"""Secure sums of a few plain numbers, with the server's and the clients' sides at hand."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.boards.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.distributed_dp import DistributedDp
from fedboard.common.protocols.secure_sum.client import SecureSumClient
from fedboard.common.protocols.secure_sum.messages import MaskingStep
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.secure_sum.server import SecureSumServer
from fedboard.common.protocols.sessions import Voucher
from tests.common.releases import a_release

ABOUT = b"run, round, board"
BOUND = 1 << 12


def a_request(width: int = 4) -> Request:
    release = a_release(width=width, l2_bound=BOUND)
    return Request(source=SumSource.TOTAL, release=release)


def given(numbers: NDArray[np.int64]) -> Given:
    """One user's numbers."""
    rows = Contribution(
        n_items=0,
        indptr=np.zeros(2, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        totals={"numbers": numbers[np.newaxis].astype(np.int64)},
    )
    return Given(contribution=rows, requests=(a_request(numbers.size),))


def some_numbers(seed: int, width: int = 4) -> NDArray[np.int64]:
    limit = int(BOUND / width**0.5)
    return np.random.default_rng(seed).integers(-limit, limit + 1, width)


AUTHORITY = RosterAuthority()


@dataclass(frozen=True)
class Listed:
    """A list of devices, and their keys."""

    identities: list[IdentityKey]
    roster: Roster

    @staticmethod
    def of(count: int, *, number: int = 1) -> "Listed":
        identities = [IdentityKey() for _ in range(count)]
        keys = [identity.public for identity in identities]
        return Listed(identities, AUTHORITY.sign(keys, fleet="test", number=number, seconds=3600))

    def voucher(self, k: int) -> Voucher:
        return Voucher(identity=self.identities[k], authority=AUTHORITY.public)


@dataclass
class Summing:
    """One session of clients that give one user's numbers each."""

    protocol: SecureSum | DistributedDp
    numbers: dict[str, NDArray[np.int64]]
    server: SecureSumServer
    clients: dict[str, SecureSumClient]
    replies: dict[MaskingStep, dict[str, bytes]] = field(default_factory=dict)
    messages: dict[MaskingStep, dict[str, bytes]] = field(default_factory=dict)

    @staticmethod
    def of(
        count: int,
        *,
        width: int = 4,
        about: bytes = ABOUT,
        listed: "Listed | None" = None,
        kind: type[SecureSum] | type[DistributedDp] = SecureSum,
        **settings: Any,
    ) -> "Summing":
        """Among the first devices of a list, where there is one."""
        if listed is not None:
            settings = {"vouched_by": AUTHORITY.public.hex(), **settings}
        protocol = kind.sized(clients=count, users=count, settings=settings)
        numbers = {f"client-{k}": some_numbers(k, width) for k in range(count)}
        here = protocol if listed is None else protocol.among(listed.roster)
        server = here.open(about, [a_request(width)], tuple(numbers), n_items=0)
        clients = {}
        for k, name in enumerate(numbers):
            own = protocol if listed is None else protocol.vouched(listed.voucher(k))
            clients[name] = own.join(about, SecureNoise())
        return Summing(protocol, numbers, server, clients)

    def reply(self, name: str, message: bytes) -> bytes:
        return self.clients[name].answer(message, given(self.numbers[name]))

    def collect(self, *, but: set[str] = frozenset()) -> dict[str, bytes]:  # type: ignore[assignment]
        """All replies to the step but these; not taken yet."""
        step = self.server._step.kind
        self.messages[step] = dict(self.server.outgoing())
        self.replies[step] = {
            name: self.reply(name, message)
            for name, message in self.messages[step].items()
            if name not in but
        }
        return self.replies[step]

    def step(self, *, but: set[str] = frozenset()) -> bool:  # type: ignore[assignment]
        """One whole step, in which these are not heard of."""
        for name, content in self.collect(but=but).items():
            self.server.take(name, content)
        return self.server.proceed()

    def until(self, step: MaskingStep) -> "Summing":
        """Everybody replies to all steps before this one."""
        while self.server._step.kind is not step:
            self.step()
        return self

    def total(self) -> NDArray[np.int64]:
        return self.server.sums().block([a_request(self.width)], 0, 1)["numbers"][0]

    @property
    def width(self) -> int:
        return next(iter(self.numbers.values())).size

    def expected(self, names: set[str]) -> NDArray[np.int64]:
        total: NDArray[np.int64] = np.sum([self.numbers[name] for name in names], axis=0)
        return total


def content_of(message: bytes, name: str = "content") -> NDArray[Any]:
    """An array of any message."""
    return _read(message).arrays[name]


def with_content(message: bytes, array: NDArray[Any], name: str = "content", **fields: Any) -> bytes:
    """The message with another array, or other fields."""
    frame = _read(message)
    return pack_frame(frame.kind, {**frame.fields, **fields}, {**frame.arrays, name: array})


def _read(message: bytes) -> Any:
    said = [f"secure-sum {step.name.lower()}" for step in MaskingStep]
    return unpack_frame(message, kinds=(*said, *(f"{kind} reply" for kind in said)), limit=1 << 30)
