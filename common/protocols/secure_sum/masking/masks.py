"""The masks of one session: one that is a client's own, and one with each of its neighbours, which cancels."""

from fedboard.common.protocols.secure_sum.masking.advertised import Advertised
from fedboard.common.protocols.secure_sum.masking.key_agreement import KeyPair
from fedboard.common.protocols.secure_sum.masking.mask_stream import Mask, derive_key


def self_mask(self_seed: bytes, *, session: bytes) -> Mask:
    """A client's own mask, which it adds.

    Args:
        self_seed: 16 bytes. Secret.
        session: 32 bytes that no other session has.
    """
    return Mask(key=derive_key(self_seed, use=b"self-mask", session=session), added=True)


def pair_mask(pair: KeyPair, own: bytes, peer: Advertised, *, session: bytes) -> Mask:
    """The mask with one neighbour: the same for both, added by the smaller identity and subtracted by the other.

    Args:
        pair: the client's own pair for masks. Secret.
        own: its identity, 32 bytes.
        peer: what the neighbour advertised.
        session: 32 bytes that no other session has.

    Raises:
        RefusedError: the neighbour's key is of low order.
    """
    parties = b"".join(sorted((own, peer.identity)))
    key = derive_key(pair.shared(peer.mask_key), use=b"pair-mask", session=session, parties=parties)
    return Mask(key=key, added=own < peer.identity)
