"""Masks: published vectors of what they are made of, and that no two are alike."""

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.protocols.secure_sum.masking import Mask, apply_masks, derive_key, key_stream


def hkdf(secret: bytes, info: bytes, length: int, *, salt: bytes = b"") -> bytes:
    """RFC 5869, written out."""
    key = hmac.digest(salt or bytes(32), secret, "sha256")
    out = block = b""
    for number in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + info + bytes([number]), "sha256")
        out += block
    return out[:length]


def mask_of(key: bytes, count: int) -> np.ndarray:
    vector = np.zeros(count, dtype=np.uint32)
    apply_masks(vector, [Mask(key=key, added=True)])
    return vector


def test_the_stream_is_counter_mode_as_nist_publishes_it() -> None:
    """SP 800-38A, F.5.5."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    stream = key_stream(key, counter=int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16))

    assert stream.update(plain).hex() == (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("80" + 31 * "00", "e35a6dcb19b201a01ebcfa8aa22b5759"),
        ("c0" + 31 * "00", "b29169cdcf2d83e838125a12ee6aa400"),
        ("e0" + 31 * "00", "d8f3a72fc3cdf74dfaf6c3e6b97b2fa6"),
    ],
)
def test_the_first_words_of_a_mask_are_the_block_cipher_of_zero(key: str, first: str) -> None:
    """AESAVS, variable key known answers for 256 bits: the cipher of a block of zeros."""
    assert mask_of(bytes.fromhex(key), 4).astype("<u4").tobytes().hex() == first


def test_keys_are_hkdf_of_the_whole_secret_bound_to_use_session_and_parties() -> None:
    known = hkdf(
        bytes([0x0B] * 22),
        bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"),
        42,
        salt=bytes.fromhex("000102030405060708090a0b0c"),
    )
    assert known.hex().startswith("3cb25f25faacd57a90434f64d0362f2a")  # RFC 5869, A.1
    assert hkdf(bytes([0x0B] * 22), b"", 42).hex().startswith("8da4e775a563c18f715f802a063c5a31")  # A.3
    session, parties = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()

    found = derive_key(b"\7" * 32, use=b"pair-mask", session=session, parties=parties)

    assert found == hkdf(b"\7" * 32, b"fedboard masks 1 \x09pair-mask" + session + parties, 32)


def test_every_bit_of_what_a_key_is_derived_from_changes_it() -> None:
    secret, session, parties = bytes(32), bytes(32), bytes(64)
    keys = {derive_key(secret, use=b"a", session=session, parties=parties)}
    keys.add(derive_key(secret, use=b"b", session=session, parties=parties))
    for bit in range(256):
        other = (1 << bit).to_bytes(32, "little")
        keys.add(derive_key(other, use=b"a", session=session, parties=parties))
        keys.add(derive_key(secret, use=b"a", session=other, parties=parties))
        keys.add(derive_key(secret, use=b"a", session=session, parties=other + bytes(32)))
        keys.add(derive_key(secret, use=b"a", session=session, parties=bytes(32) + other))

    assert len(keys) == 2 + 4 * 256


@given(count=st.integers(0, 40_000), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_masks_of_any_length_are_the_stream_and_are_taken_away_again(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vector = random.integers(0, 1 << 32, count, dtype=np.uint32)
    masks = [Mask(key=random.bytes(32), added=bool(added)) for added in random.integers(0, 2, 3)]
    masked = vector.copy()

    apply_masks(masked, masks)

    expected = vector.copy()
    for mask in masks:
        words = np.frombuffer(key_stream(mask.key).update(bytes(4 * count)), dtype="<u4")
        expected = expected + words if mask.added else expected - words
    np.testing.assert_array_equal(masked, expected)
    apply_masks(masked, [mask.reverse for mask in masks])
    np.testing.assert_array_equal(masked, vector)


def test_a_mask_is_not_printed() -> None:
    assert "key" not in repr(Mask(key=bytes(32), added=True))


def test_no_word_of_a_mask_serves_twice() -> None:
    """As a counter that is set back at a chunk's end would have it."""
    blocks = mask_of(bytes(range(32)), 1 << 18).view(np.uint64).reshape(-1, 2)

    assert len(np.unique(blocks, axis=0)) == len(blocks)
