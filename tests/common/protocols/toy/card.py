"""What the toy says of itself."""

from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.sums_left import SumsLeft
from fedboard.common.protocols.toy.protocol import Toy


def _left(protocol: Toy) -> SumsLeft:
    return SumsLeft(packing=protocol.packing, fewest=1, gives_at_once=True)


CARD = Card(
    protocol=Toy,
    trusted="the server and its toys",
    server_sees="her sums as they are",
    bytes_by="items x rank",
    steps="1",
    meanings={"most_users": "Users whose contributions the sums have room for."},
    without_messages=_left,
)

__all__ = ["CARD"]
