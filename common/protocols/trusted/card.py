"""What the trusted aggregator says of itself."""

from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.costs import SessionSize, Terms
from fedboard.common.protocols.trusted.protocol import Trusted


def factored(size: SessionSize) -> Terms:
    """Server: every message is rows, whose products are summed."""
    ratings = size.stayed * size.ratings
    return {"session": 1.0, "client": size.stayed, "product": ratings * size.width}


CARD = Card(
    protocol=Trusted,
    trusted="the server",
    server_sees="her clipped rows",
    bytes_by="her ratings",
    steps="1",
    meanings={"form": "factored: rows as they are; dense: the sums of a client's users."},
    server_terms=factored,
)
