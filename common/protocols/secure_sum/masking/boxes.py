"""Boxes: the shares that one client gives another, on their way through the server, which cannot read them.

ChaCha20-Poly1305 (RFC 8439) under a key of X25519 and HKDF-SHA256 that serves one message in one direction.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedboard.common.protocols.secure_sum.masking.key_agreement import KeyPair
from fedboard.common.protocols.secure_sum.masking.mask_stream import derive_key
from fedboard.common.protocols.secure_sum.masking.secret_shares import NO_SHARE, SHARE_BYTES

BOX_BYTES = 2 * SHARE_BYTES + 16
_NONCE = bytes(12)  # the key is used for one message


def close_box(
    pair: KeyPair, peer_key: bytes, shares: tuple[bytes, bytes], *, session: bytes, parties: bytes
) -> bytes:
    """Encrypt a share of each secret, 50 bytes.

    Args:
        pair: the sender's pair for shares. Secret.
        peer_key: the receiver's public one.
        shares: of the self-mask's seed and of the mask key's seed, 17 bytes each. Secret.
        session: 32 bytes that no other session has.
        parties: identities of sender and receiver, in this order.

    Raises:
        RefusedError: the receiver's key is of low order.
    """
    cipher = _cipher(pair, peer_key, session, parties)
    return cipher.encrypt(_NONCE, b"".join(shares), session + parties)


def open_box(
    pair: KeyPair, peer_key: bytes, box: bytes, *, session: bytes, parties: bytes
) -> tuple[bytes, bytes]:
    """The shares in a box; ``NO_SHARE`` twice where it was not made by this sender for this receiver and session.

    Args:
        pair: the receiver's pair for shares. Secret.
        peer_key: the sender's public one.
        box: from a client that need not be honest, by way of a server that need not be either.
        session: 32 bytes that no other session has.
        parties: identities of sender and receiver, in this order.

    Raises:
        RefusedError: the sender's key is of low order.
    """
    try:
        content = _cipher(pair, peer_key, session, parties).decrypt(_NONCE, box, session + parties)
    except InvalidTag:
        return NO_SHARE, NO_SHARE
    return content[:SHARE_BYTES], content[SHARE_BYTES:]


def _cipher(pair: KeyPair, peer_key: bytes, session: bytes, parties: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(
        derive_key(pair.shared(peer_key), use=b"shares", session=session, parties=parties)
    )
