"""What the trusted aggregator says of itself."""

from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.trusted.protocol import Trusted

CARD = Card(
    protocol=Trusted,
    trusted="the server",
    server_sees="her clipped rows",
    bytes_by="her ratings",
    steps="1",
    meanings={"form": "factored: rows as they are; dense: the sums of a client's users."},
)
