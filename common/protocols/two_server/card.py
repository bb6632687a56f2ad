"""What two servers say of themselves."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedboard.common.contribution import Contribution, Request
from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.properties import SumsLeft
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.common.protocols.two_server.rules import NOISE_RATIO, helper_noise
from fedboard.common.protocols.two_server.shares import Layout, kept_entries


def _left(protocol: TwoServer) -> SumsLeft:
    def cut(contribution: Contribution, about: bytes, requests: Sequence[Request]) -> Contribution:
        layout = protocol.rules.layout(about, requests)
        return _of_largest_weight(contribution, layout) if layout.per_item else contribution

    return SumsLeft(
        packing=protocol.packing,
        fewest=protocol.rules.survivors,
        gives_at_once=True,
        noise_ratio=NOISE_RATIO,
        cut=cut,
        second_noise=helper_noise,
    )


def _of_largest_weight(contribution: Contribution, layout: Layout) -> Contribution:
    """The entries that a user's message has room for."""
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


CARD = Card(
    protocol=TwoServer,
    trusted="one of two servers",
    server_sees="shares that say nothing alone",
    bytes_by="most ratings x rank",
    steps="1",
    meanings={
        "most_users": "Users whose contributions the sums have room for: more make the packing coarser.",
        "most_items": "Public maximum of items of a user; every message is padded to it.",
        "survivors": "Fewest clients whose contributions make a sum; with fewer the round is given up.",
    },
    without_messages=_left,
)
