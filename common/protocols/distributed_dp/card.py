"""What distributed-dp says of itself: a secure sum, with the noise in it."""

from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocols.distributed_dp.protocol import DistributedDp
from fedboard.common.protocols.secure_sum.card import (
    AUDITED_WITH,
    MEANINGS,
    OPTIONAL,
    neighbours,
)
from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.properties import SumsLeft


def _left(protocol: DistributedDp) -> SumsLeft:
    rules = protocol.rules
    return SumsLeft(
        packing=protocol.packing,
        fewest=rules.fewest,
        gives_at_once=False,
        shares=NoiseShares(least=rules.honest),
        noise_shares=rules.honest_among,
        noise_ratio=rules.noise_ratio,
    )


CARD = Card(
    protocol=DistributedDp,
    trusted="enough other clients",
    server_sees="the sum, noised already",
    bytes_by="items x rank, + neighbours",
    steps="4 or 5",
    meanings={
        **MEANINGS,
        "honest": "Fewest honest clients in any sum, whose shares make up all of the noise.",
        "most_clients": "Most clients of a round, whose noise the sums have room for.",
    },
    optional=OPTIONAL,
    neighbours=neighbours,
    without_messages=_left,
    audited_with={**AUDITED_WITH, "honest": AUDITED_WITH["survivors"]},
)
