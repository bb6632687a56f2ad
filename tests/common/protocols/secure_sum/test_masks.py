"""Masked numbers: nobody can tell them from uniform ones, and no mask serves twice; controls are caught."""

import os
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.secure_sum.messages import MaskingStep
from tests.common.protocols.secure_sum.secure_sums import ABOUT, Summing, content_of, given

WIDTH = 1 << 15
RARE = 1e-9
Words = NDArray[np.uint32]


def least_chance(words: Words) -> float:
    """The smallest p value of several tests that words are uniform and independent of their neighbours."""
    octets, bits = words.view(np.uint8), np.unpackbits(words.view(np.uint8)).reshape(-1, 32)
    turned = words.astype(np.float64)
    around = np.corrcoef(turned[:-1], turned[1:])[0, 1] * np.sqrt(words.size) if np.ptp(turned) else np.inf
    pairs = np.bincount((octets[:-1] >> 4).astype(np.int64) * 16 + (octets[1:] >> 4), minlength=256)
    return min(
        float(stats.chisquare(np.bincount(octets, minlength=256)).pvalue),
        float(stats.chisquare(pairs).pvalue),
        float(stats.kstest(turned / 2**32, "uniform").pvalue),
        2 * float(stats.norm.sf(abs(around))),
        32 * float(min(stats.binomtest(int(n), len(bits)).pvalue for n in bits.sum(axis=0))),
        chance_of_repeats(words),
    )


def chance_of_repeats(words: Words) -> float:
    """Of so many equal words: a generator with few states has too many."""
    repeats = words.size - np.unique(words).size
    return float(stats.poisson.sf(repeats - 1, words.size**2 / 2**33))


def masked(numbers: NDArray[np.int64], *, about: bytes = ABOUT, count: int = 3) -> dict[str, Words]:
    """What the server sees of clients that all give the same numbers."""
    summing = Summing.of(count, width=numbers.size, about=about)
    summing.numbers = dict.fromkeys(summing.numbers, numbers)
    replies = summing.until(MaskingStep.MASKED).collect()
    return {name: content_of(reply).copy() for name, reply in replies.items()}


def constant(value: int) -> NDArray[np.int64]:
    return np.full(WIDTH, value, dtype=np.int64)


def test_masked_numbers_of_constant_data_look_uniform() -> None:
    for words in masked(constant(7)).values():
        assert least_chance(words) > RARE


@pytest.mark.slow
def test_sums_and_differences_of_what_two_clients_or_two_rounds_send_look_uniform() -> None:
    first, second = masked(constant(0)), masked(constant(1), about=b"next round")
    again = masked(constant(0))

    for one, other in [
        (first["client-0"], first["client-1"]),
        (first["client-0"], second["client-0"]),
        (first["client-0"], again["client-0"]),
    ]:
        assert least_chance(one - other) > RARE
        assert least_chance(one + other) > RARE
    assert (sum(first.values(), start=np.uint32(0)) != 0).mean() > 0.99, "their own masks do not cancel"


CONTROLS: dict[str, Callable[[], Words]] = {
    "not masked": lambda: np.full(WIDTH, 7, dtype=np.uint32),
    "31 bits": lambda: masked(constant(0))["client-0"] >> 1,
    "16 bits": lambda: masked(constant(0))["client-0"] & 0xFFFF,
    "one word twice": lambda: np.repeat(masked(constant(0))["client-0"][::2], 2),
    "a counter": lambda: np.arange(WIDTH, dtype=np.uint32) * np.uint32(131_072),
    "small noise": lambda: (
        np.rint(np.random.default_rng(0).normal(0, 1e8, WIDTH)).astype(np.int64).astype(np.uint32)
    ),
    "a stream that starts again": lambda: np.tile(masked(constant(0))["client-0"][: WIDTH // 2], 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS.keys())
def test_control_poor_masks_are_told_from_uniform_ones(control: Callable[[], Words]) -> None:
    assert least_chance(control()) < RARE


def test_control_a_mask_that_serves_twice_shows_the_difference_of_the_numbers() -> None:
    """One state resumed twice, which whoever carries it must not do: the one way to reuse a mask."""
    summing = Summing.of(3, width=WIDTH).until(MaskingStep.MASKED)
    message = dict(summing.server.outgoing())["client-0"]
    state = summing.clients["client-0"].to_bytes()
    sent = []
    for value in (3, 5):
        session = summing.protocol.resume(ABOUT, SecureNoise(), state)
        sent.append(content_of(session.answer(message, given(constant(value)))))

    assert np.all(sent[1] - sent[0] == 2)
    assert least_chance(sent[1] - sent[0]) < RARE


def said_in_a_fork(say: Callable[[], bytes]) -> bytes:
    """What a forked process says: its bytes, or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = say()
        except PrivacyError:
            said = b"PrivacyError"
        finally:
            os.write(writing, said[:4096])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_copy_of_a_session_says_nothing() -> None:
    summing = Summing.of(3).until(MaskingStep.MASKED)
    message = dict(summing.server.outgoing())["client-0"]
    session = summing.clients["client-0"]

    def copied() -> bytes:
        return session.answer(message, given(summing.numbers["client-1"]))

    assert said_in_a_fork(copied) == b"PrivacyError"
    assert session.answer(message, given(summing.numbers["client-0"]))
    assert said_in_a_fork(copied) == b"PrivacyError"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_sessions_that_begin_in_forked_processes_have_nothing_in_common() -> None:
    protocol, server = Summing.of(3).protocol, Summing.of(3).server
    message = dict(server.outgoing())["client-0"]

    def keys() -> bytes:
        return protocol.join(ABOUT, SecureNoise()).answer(message, None)

    replies = [content_of(said_in_a_fork(keys)).reshape(3, 32) for _ in range(3)]
    assert len({row.tobytes() for reply in replies for row in reply}) == 9


def test_a_session_does_not_print_its_secrets() -> None:
    session = Summing.of(3).clients["client-0"]
    secrets = session._memory.secrets

    for printed in (repr(session), str(session), repr(secrets), repr(session._memory)):
        assert secrets.self_seed.hex() not in printed
        assert repr(secrets.self_seed) not in printed
        assert repr(secrets.share_private) not in printed
