"""A noise stream is one row of words wherever and in whatever pieces it is read, and no word of it comes twice."""

import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedboard.common.arrays import BitArray
from fedboard.common.certificate import certify
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.privacy.releases.noise import (
    NoiseStream,
    SecretStream,
    SecureNoise,
    SeededNoise,
    SeededStream,
    noise_problems,
)
from tests.common.privacy.commitments import unplanned

FALSE_ALARM, N_DRAWS, WRONG_BY = 1e-9, 50_000, 0.10


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(3)])
def test_draws_are_standard_normal_and_a_wrong_scale_would_be_noticed(source):
    draws = source.stream("a").normal(0, N_DRAWS)

    assert stats.kstest(draws, stats.norm.cdf).pvalue > FALSE_ALARM
    for wrong in (1 - WRONG_BY, 1 + WRONG_BY):
        assert stats.kstest(draws, stats.norm(scale=wrong).cdf).pvalue < FALSE_ALARM


def test_words_have_fair_bits_and_no_correlation_with_their_neighbours():
    words = SeededNoise(1).stream("bits").bits(0, N_DRAWS)

    ones = np.unpackbits(words.view(np.uint8)).sum()
    draws = SeededNoise(1).stream("bits").normal(0, N_DRAWS)

    assert stats.binomtest(int(ones), 64 * N_DRAWS).pvalue > FALSE_ALARM
    for lag in (1, 2, 3, 64):
        assert abs(np.corrcoef(draws[lag:], draws[:-lag])[0, 1]) < 6 / np.sqrt(N_DRAWS)


def test_words_are_the_aes_256_key_stream():
    # In counter mode the first block is the encryption of counter 0, here under the key of zeros.
    words = NoiseStream(key=bytes(32)).bits(0, 2)

    assert words.astype("<u8").tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_the_same_seed_and_name_give_the_same_noise_and_another_of_either_does_not():
    first = SeededNoise(5).stream("items-1").normal(0, 8)

    assert np.array_equal(first, SeededNoise(5).stream("items-1").normal(0, 8))
    assert not np.any(first == SeededNoise(5).stream("items-2").normal(0, 8))
    assert not np.any(first == SeededNoise(6).stream("items-1").normal(0, 8))


def test_secure_streams_differ_even_for_one_name():
    source = SecureNoise()

    assert not np.any(source.stream("a").normal(0, 8) == source.stream("a").normal(0, 8))


def test_sources_say_whether_they_are_private():
    assert SecureNoise().private
    assert not SeededNoise(1).private
    assert SeededNoise(1).label == "seeded: simulation only, not private"
    assert SeededNoise(1).describe() == {"noise": SeededNoise.label, "private": False, "seed": 1}
    assert set(SecureNoise().describe()) == {"noise", "private"}


def test_streams_carry_in_their_type_whether_they_are_private():
    assert isinstance(SecureNoise().stream("a"), SecretStream)
    assert isinstance(SeededNoise(1).stream("a"), SeededStream)
    assert SecureNoise().stream("a").private
    assert not SeededNoise(1).stream("a").private
    assert not NoiseStream(key=bytes(32)).private
    for stream in (SecureNoise().stream("a"), SeededNoise(1).stream("a")):
        copy = pickle.loads(pickle.dumps(stream))
        assert type(copy) is type(stream)
        assert copy == stream
        with pytest.raises(FrozenInstanceError):
            stream.key = bytes(32)


@pytest.mark.parametrize("kind", [NoiseStream, SecretStream, SeededStream])
def test_a_key_is_never_printed(kind):
    stream = kind(key=b"very secret key, 32 bytes long!!")

    assert "secret key" not in repr(stream)
    assert "secret key" not in str(stream)
    assert "secret key" not in f"{[stream]}"


@dataclass(frozen=True)
class Pretender:
    """A source that promises privacy and draws from a seed."""

    private: ClassVar[bool] = True
    label: ClassVar[str] = SecureNoise.label

    def describe(self):
        return {"noise": self.label, "private": True}

    def stream(self, name):
        return SeededNoise(1).stream(name)


def test_noise_from_a_seed_cannot_be_booked_as_private(make_release, ledger):
    with pytest.raises(PrivacyError, match="of the other kind"):
        make_release().book(ledger, Pretender())


@pytest.mark.parametrize(
    "stated",
    [
        {"noise": SeededNoise.label, "private": True},
        {"noise": SecureNoise.label, "private": True, "seed": 3},
        {"noise": "as good as secure", "private": True},
        {"noise": SecureNoise.label},
        {"noise": SecureNoise.label, "private": "yes"},
        {"private": True},
    ],
)
def test_no_certificate_calls_noise_from_a_seed_or_of_unknown_origin_private(make_release, stated):
    event = {**make_release().event(), **stated}

    assert noise_problems(event)
    with pytest.raises(PrivacyError, match="noise"):
        certify(
            [event],
            commitment=unplanned(epsilon=5.0),
            trust=["t"],
            assumptions=["a"],
            dataset="d",
        )


@pytest.mark.parametrize(("source", "private"), [(SecureNoise(), True), (SeededNoise(1), False)])
def test_a_certificate_says_private_of_secure_noise_alone(make_release, ledger, source, private):
    make_release().book(ledger, source)

    certificate = certify(
        ledger.events(), commitment=ledger.commitment, trust=["t"], assumptions=["a"], dataset="d"
    )

    assert certificate.private is private
    assert any("not a private release" in text for text in certificate.statements) is not private


def test_a_pickled_stream_draws_the_same_block():
    stream = SecureNoise().stream("a")

    assert np.array_equal(pickle.loads(pickle.dumps(stream)).normal(5, 20), stream.normal(5, 20))


_CHILD = """
import pickle, sys
source, stream = pickle.load(sys.stdin.buffer)
pickle.dump((stream.normal(20, 20), source.stream("a").normal(20, 20)), sys.stdout.buffer)
"""


def _in_a_forked_process(source, stream):
    """What ``_CHILD`` does, in a child of os.fork."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(sending, "wb") as pipe:
                pickle.dump((stream.normal(20, 20), source.stream("a").normal(20, 20)), pipe)
        finally:
            os._exit(0)
    os.close(sending)
    with open(receiving, "rb") as pipe:
        drawn = pickle.load(pipe)
    os.waitpid(child, 0)
    return drawn


def _in_a_new_process(source, stream):
    ended = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=pickle.dumps((source, stream)),
        capture_output=True,
        check=True,
        timeout=180,
    )
    return pickle.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("elsewhere", [_in_a_forked_process, _in_a_new_process])
def test_children_repeat_a_stream_by_coordinate_and_never_the_noise_of_another(elsewhere):
    source = SecureNoise()
    stream = source.stream("a")
    stream.normal(0, 20)  # whatever state there might be is now in use

    children = [elsewhere(source, stream) for _ in range(3)]

    for of_stream, _ in children:
        assert np.array_equal(of_stream, stream.normal(20, 20))
    fresh = [draws for _, draws in children] + [source.stream("a").normal(20, 20), stream.normal(20, 20)]
    assert len({value for draws in fresh for value in draws.tolist()}) == 20 * len(fresh)


@pytest.mark.parametrize(("offset", "count"), [(-1, 3), (0, -3)])
def test_a_negative_range_is_refused(offset, count):
    with pytest.raises(InputError, match="must be >= 0"):
        SeededNoise(2).stream("a").bits(offset, count)


def test_a_missing_cipher_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers", None)

    with pytest.raises(FedboardError, match="cryptography"):
        SeededNoise(2).stream("a").normal(0, 1)


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
