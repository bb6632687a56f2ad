"""A noise stream is one row of words wherever and in whatever pieces it is read, and no word of it comes twice."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.arrays import BitArray
from fedboard.common.privacy.releases.noise import NoiseStream

CHUNK = 1 << 16
"""Words that the stream makes in one go: its seams lie at multiples of it, counted from where a call begins."""
KEY = bytes(range(32))
STREAM = NoiseStream(key=KEY)

offsets = st.builds(
    lambda chunks, beside: max(0, chunks * CHUNK + beside),
    st.sampled_from([0, 1, 2, 3, 1 << 16, (1 << 32) - 1, 1 << 32]),
    st.integers(-5, 5),
)
"""Next to the seams, near the start of the stream and far out, odd ones included."""
counts = st.one_of(
    st.integers(0, 9),
    st.builds(lambda chunks, beside: chunks * CHUNK + beside, st.integers(1, 2), st.integers(-5, 5)),
)


def words_one_by_one(offset: int, count: int) -> BitArray:
    """The same words without counter mode: each block is the encryption of its own number."""
    first, last = offset // 2, (offset + count + 1) // 2
    numbers = b"".join(block.to_bytes(16, "big") for block in range(first, last))
    encryptor = Cipher(algorithms.AES256(KEY), modes.ECB()).encryptor()
    words = np.frombuffer(encryptor.update(numbers), dtype="<u8").astype(np.uint64)
    return words[offset - 2 * first :][:count]


@settings(max_examples=60, deadline=None)
@given(offset=offsets, first=counts, second=counts)
def test_drawing_some_and_then_more_is_drawing_all_at_once(offset: int, first: int, second: int) -> None:
    whole = STREAM.bits(offset, first + second)

    assert np.array_equal(whole[:first], STREAM.bits(offset, first))
    assert np.array_equal(whole[first:], STREAM.bits(offset + first, second))


@settings(max_examples=25, deadline=None)
@given(offset=offsets, pieces=st.lists(counts, min_size=2, max_size=5))
def test_normal_draws_are_the_same_in_any_pieces(offset: int, pieces: list[int]) -> None:
    bounds = [0, *accumulate(pieces)]
    whole = STREAM.normal(offset, bounds[-1])

    for start, stop in pairwise(bounds):
        assert np.array_equal(whole[start:stop], STREAM.normal(offset + start, stop - start))


@settings(max_examples=25, deadline=None)
@given(offset=offsets, count=counts)
def test_every_word_is_that_of_its_own_number(offset: int, count: int) -> None:
    assert np.array_equal(STREAM.bits(offset, count), words_one_by_one(offset, count))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 1, CHUNK - 3])
def test_no_word_comes_twice_in_many_chunks(offset: int) -> None:
    words = STREAM.bits(offset, 5 * CHUNK + 7)

    assert np.unique(words).size == words.size  # two equal 64-bit words among these: once in 3 * 10^8
