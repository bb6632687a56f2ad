"""What is left of each protocol's sums when what cancels is left out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.distributed_dp.protocol import DistributedDp
from fedboard.common.protocols.local.protocol import Local
from fedboard.common.protocols.secure_sum.payload import ExactNumbers
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.two_server.noise import NOISE_RATIO
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.common.protocols.two_server.shares import Layout, kept_entries

Cut = Callable[[Contribution], Contribution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """The sum of truncated contributions on a packing, and the noise on top."""

    packing: Callable[[Sequence[Request]], Packing]
    fewest: int
    """Clients whose contributions make a sum."""
    gives_at_once: bool
    """Whether the first step asks for contributions."""
    shares: NoiseShares | None = None
    """How clients draw their noise; None where they draw none."""
    shares_per_user: bool = False
    """Whether a client adds a share for each of its users, or one in all."""
    noise_shares: Callable[[int], int] = lambda clients: 0
    """What the sums state, from the number of clients that gave."""
    noise_ratio: float = 1.0
    """Likewise."""
    most_items: int | None = None
    """Of two servers: items that a user sends, and that a second server adds noise; None elsewhere."""

    def cut(self, contribution: Contribution, about: bytes, requests: Sequence[Request]) -> Contribution:
        """The rows as they are sent.

        Args:
            contribution: private.
            about: of the round.
            requests: of the round.
        """
        if self.most_items is None:
            return contribution
        layout = Layout(about=about, packing=self.packing(requests), most_items=self.most_items)
        return _of_largest_weight(contribution, layout) if layout.per_item else contribution


def remains_of(protocol: AggregationProtocol) -> Remains:
    """What is left of this protocol.

    Raises:
        InputError: that is not known.
    """
    match protocol:
        case SecureSum(rules=rules):
            exact = ExactNumbers(most_users=rules.most_users)
            return Remains(packing=exact.packing, fewest=rules.fewest, gives_at_once=False)
        case DistributedDp(rules=rules):
            return Remains(
                packing=protocol.packing,
                fewest=rules.fewest,
                gives_at_once=False,
                shares=NoiseShares(least=rules.honest),
                noise_shares=rules.honest_among,
                noise_ratio=rules.noise_ratio,
            )
        case Local():
            return Remains(
                packing=protocol.packing,
                fewest=1,
                gives_at_once=True,
                shares=NoiseShares(least=1),
                shares_per_user=True,
                noise_shares=lambda clients: clients,
                noise_ratio=math.sqrt(protocol.most_users),
            )
        case TwoServer():
            return Remains(
                packing=protocol.packing,
                fewest=protocol.rules.survivors,
                gives_at_once=True,
                most_items=protocol.rules.most_items,
                noise_ratio=NOISE_RATIO,
            )
    raise InputError(
        f"it is not known what is left of protocol {protocol.name!r} without its messages; take masks 'real'"
    )


def _of_largest_weight(contribution: Contribution, layout: Layout) -> Contribution:
    bounds, kept = contribution.indptr, np.zeros(contribution.items.size, dtype=np.bool_)
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        places, _ = kept_entries(contribution, slice(start, stop), layout)
        kept[start + places] = True
    weights, responses = contribution.weights, contribution.responses
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(kept, dtype=np.int64)])
    return replace(
        contribution,
        indptr=before[bounds],
        items=contribution.items[kept],
        weights=None if weights is None else weights[kept],
        responses=None if responses is None else responses[kept],
    )


__all__ = ["Remains", "remains_of"]
