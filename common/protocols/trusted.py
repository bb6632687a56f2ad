"""A trusted aggregator: it sees each contribution for the time of a round, sums exactly, and adds the noise.

A user's rows are sent *factored*, as they are, rank + 4 |Omega_j| numbers, as the arrays of a frame, and the
aggregator forms the products.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.messages.question import FORM, arrays_of, rows_of
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums, Given, Trust
from fedboard.common.protocols.properties import Card
from fedboard.common.protocols.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.sums.row_bounds import rows_within_bounds

_KIND = "trusted"
_MOST_BYTES = 1 << 31


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    form: str
    n_users: int
    n_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted(AggregationProtocol):
    """The protocol; ``backend`` picks the kernels, never the result."""

    NAME: ClassVar[str] = "trusted"
    shows_rows: ClassVar[bool] = True
    fits_any_fleet: ClassVar[bool] = True
    backend: str = "numpy"

    @property
    def trust(self) -> Trust:
        """Who sees what."""
        return Trust(
            server_sees=(
                "The aggregator sees each user's clipped rows for the time of a round; it publishes noised sums "
                "only."
            ),
            network_sees="The network sees sizes and times; replies over Flower are sealed to a key of the round.",
            clients_see="Clients see the published boards only.",
            privacy_relies_on="The aggregator must add the noise, keep the ledger and forget the rows.",
            utility_relies_on="The board is as good as the aggregator and the clients are honest.",
            malicious_client=(
                "A malicious client moves the sum by at most one honest bound: the aggregator checks every row and "
                "drops what breaks it."
            ),
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The form of its messages: there is one."""
        return {"form": FORM}

    @classmethod
    def sized(cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy") -> Self:
        """For any fleet; there is nothing to set.

        Raises:
            InputError: a setting.
        """
        return cls.from_parameters({"form": FORM, **settings}, backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> Self:
        """What a server states, on a client.

        Raises:
            InputError: not the parameters of this protocol.
        """
        if dict(parameters) != {"form": FORM}:
            raise InputError(
                f"the trusted protocol has no settings but form = {FORM!r}, got {dict(parameters)}"
            )
        return cls(backend=backend)

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> OneStepServer:
        """Begin a round on the server."""
        adding = _Adding(self, requests, n_items)
        return OneStepServer(about=about, clients=clients, adding=adding)

    def join(self, about: bytes, noise: NoiseSource) -> OneStepClient:
        """Begin a round on a client."""
        return OneStepClient(about=about, pack=self._packed)

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> OneStepClient:
        """Go on on a client."""
        return OneStepClient(about=about, pack=self._packed, sent=state)

    def _packed(self, given: Given) -> bytes:
        rows = self.encode(given.contribution, given.requests)
        fields = {"form": FORM, "n_users": rows.n_users, "n_items": rows.n_items}
        return pack_frame(_KIND, fields, arrays_of(rows))

    def encode(self, contribution: Contribution, requests: Sequence[Request]) -> Contribution:
        """Check every bound on the client: what is given is what is sent.

        Raises:
            PrivacyError: a row breaks its bound.
        """
        if not bool(np.all(rows_within_bounds(contribution, requests))):
            raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
        return contribution

    def combine(self, given: Iterable[Contribution], requests: Sequence[Request]) -> ExactSums:
        """Drop rows that break a bound and messages that do not fit, then sum exactly, in any order.

        Messages are taken one at a time; see ``RunningSums`` for what is held of them.
        """
        running = RunningSums(requests=tuple(requests), backend=self.backend)
        for rows in given:
            running.add_rows(rows)
        return running.sums()


class _Adding:
    """Adds the messages of a session."""

    def __init__(self, protocol: Trusted, requests: Sequence[Request], n_items: int) -> None:
        self._n_items = n_items
        self._running = RunningSums(requests=tuple(requests), backend=protocol.backend)

    def add(self, message: bytes) -> None:
        frame = unpack_frame(message, kinds=(_KIND,), limit=_MOST_BYTES)
        fields = frame.read(_Fields)
        if fields.n_items != self._n_items:
            raise RefusedError(Refusal.WRONG_BOARD)
        rows = rows_of(fields.form, frame.arrays, n_users=fields.n_users, n_items=fields.n_items)
        self._running.add_rows(rows)

    def sums(self) -> ExactSums:
        return self._running.sums()


def factored_bytes(contribution: Contribution) -> IntArray:
    """Bytes that each user's rows take in factored form, int64, shape (n_users,)."""
    per_entry = 4 + sum(a.itemsize for a in (contribution.weights, contribution.responses) if a is not None)
    fixed = sum(total.itemsize * total.shape[1] for total in contribution.totals.values())
    if contribution.vectors is not None:
        fixed += contribution.vectors.itemsize * contribution.vectors.shape[1]
    sizes: IntArray = np.diff(contribution.indptr) * per_entry + fixed
    return sizes


CARD = Card(
    protocol=Trusted,
    trusted="the server",
    server_sees="her clipped rows",
    bytes_by="her ratings",
    steps="1",
    meanings={"form": "factored: rows are sent as they are."},
)
