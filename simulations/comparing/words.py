"""Each protocol in a few words, for tables; its own ``trust`` sentences say it in full."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedboard.common.protocol import AggregationProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What fits into a line."""

    trusted: str
    """Who must behave for the guarantee to hold."""
    server_sees: str
    """Of one client."""
    bytes_by: str
    """What the bytes up grow with."""
    steps: str


_WORDS: Mapping[str, Words] = {
    "trusted": Words(
        trusted="the server",
        server_sees="her clipped rows",
        bytes_by="her ratings",
        steps="1",
    ),
    "secure-sum": Words(
        trusted="the server's noise",
        server_sees="the sum over everybody",
        bytes_by="items x rank, + neighbours",
        steps="4",
    ),
    "distributed-dp": Words(
        trusted="enough other clients",
        server_sees="the sum, noised already",
        bytes_by="items x rank, + neighbours",
        steps="4",
    ),
    "two-server": Words(
        trusted="one of two servers",
        server_sees="shares that say nothing alone",
        bytes_by="most ratings x rank",
        steps="1",
    ),
    "local": Words(
        trusted="nobody but her device",
        server_sees="her sums under all the noise",
        bytes_by="items x rank",
        steps="1",
    ),
}
_MEANINGS: Mapping[str, str] = {
    "form": "factored: rows as they are; dense: the sums of a client's users.",
    "most_users": "Users whose contributions the sums have room for: more make the packing coarser.",
    "survivors": "Fewest clients whose contributions make a sum; with fewer the round is given up.",
    "dropout": "Largest share of the clients that may drop out of a round.",
    "colluding": "Largest share of the clients that may collude with the server.",
    "honest": "Fewest honest clients in any sum, whose shares make up all of the noise.",
    "most_clients": "Most clients of a round, whose noise the sums have room for.",
    "most_items": "Public maximum of items of a user; every message is padded to it.",
}


def words_of(name: str, protocol: AggregationProtocol) -> Words:
    """The words for a protocol; its own sentences where it is not one of this package."""
    trust = protocol.trust
    return _WORDS.get(
        name, Words(trusted=trust.privacy_relies_on, server_sees=trust.server_sees, bytes_by="?", steps="?")
    )


def trust_in_a_word(name: str) -> str:
    """Who must behave for the guarantee to hold."""
    return _WORDS[name].trusted if name in _WORDS else "see its statement"


def meaning_of(parameter: str) -> str:
    """What a parameter says; empty where it is not one of this package's."""
    return _MEANINGS.get(parameter, "")


__all__ = ["Words", "meaning_of", "trust_in_a_word", "words_of"]
