"""What local privacy says of itself."""

import math

from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocols.local.protocol import Local
from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.properties import SumsLeft


def _left(protocol: Local) -> SumsLeft:
    return SumsLeft(
        packing=protocol.packing,
        fewest=1,
        gives_at_once=True,
        shares=NoiseShares(least=1),
        shares_per_user=True,
        noise_shares=lambda clients: clients,
        noise_ratio=math.sqrt(protocol.most_users),
    )


CARD = Card(
    protocol=Local,
    trusted="nobody but her device",
    server_sees="her sums under all the noise",
    bytes_by="items x rank",
    steps="1",
    meanings={
        "most_users": "Users whose contributions the sums have room for: more make the packing coarser."
    },
    without_messages=_left,
    audited_clients=1,
)
