"""What the toy says of itself."""

from collections.abc import Sequence

from fedboard.common.contribution import Request
from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.properties import SumsLeft
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.toy.protocol import AdditiveShares


def _left(protocol: AdditiveShares) -> SumsLeft:
    def packing(requests: Sequence[Request]) -> Packing:
        return Packing.of(requests, most_users=protocol.most_users)

    return SumsLeft(packing=packing, fewest=1, gives_at_once=True)


CARD = Card(
    protocol=AdditiveShares,
    trusted="two toys",
    server_sees="half of her sums",
    bytes_by="items x rank, twice",
    steps="1",
    meanings={"most_users": "Users whose contributions the sums have room for."},
    without_messages=_left,
)

__all__ = ["CARD"]
