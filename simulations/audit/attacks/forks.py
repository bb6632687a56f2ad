"""Whether streams repeat nothing, in one process or in several that are forked from one another."""

import itertools
import os
import warnings

import numpy as np

from fedboard.common.arrays import BitArray
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.simulations.audit.findings import AuditFinding, Part

_WORDS, _CHILDREN = 512, 3
_SEAM = 1 << 16
_LONG = 4 * _SEAM + 5


def fork_test(noise: NoiseSource) -> AuditFinding:
    """Draw in this process and in forked copies of it, for a release of the same name.

    Random 64-bit words of a few streams are all distinct but for a chance of 10^-13; a generator whose state was
    copied by the fork repeats them. For private sources: a seeded one repeats by design.
    """
    warm = noise.stream("fork").bits(0, _WORDS)  # whatever a source keeps is there before the fork
    drawn = [warm, *(_forked_words(noise) for _ in range(_CHILDREN)), noise.stream("fork").bits(0, _WORDS)]
    words = np.concatenate(drawn)
    repeated = _repeated(words)
    detail = f"{repeated} of {words.size} words repeated in {_CHILDREN} forked processes and their parent"
    return AuditFinding(
        part=Part.NOISE, check="forked processes draw noise of their own", passed=not repeated, detail=detail
    )


def stream_test(noise: NoiseSource) -> AuditFinding:
    """Whether a stream has no word twice over several of its inner seams, and is the same in any pieces.

    Args:
        noise: any source.
    """
    stream = noise.stream("stream")
    words = stream.bits(0, _LONG)
    repeated = _repeated(words)
    pieces = [0, 1, _SEAM - 1, _SEAM + 1, 2 * _SEAM + 3, _LONG]
    apart = [stream.bits(start, stop - start) for start, stop in itertools.pairwise(pieces)]
    same = np.array_equal(words, np.concatenate(apart))
    detail = f"{repeated} of {words.size} words repeated" + ("" if same else "; other words in other pieces")
    return AuditFinding(
        part=Part.NOISE,
        check="a stream never comes back to its words",
        passed=same and not repeated,
        detail=detail,
    )


def _repeated(words: BitArray) -> int:
    """How many are there already; by sorting, which takes a tenth of what ``np.unique`` takes."""
    return int(np.count_nonzero(np.diff(np.sort(words)) == 0))


def _forked_words(noise: NoiseSource) -> BitArray:
    """The first words of a stream that a child asks for; the child does nothing else."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Threads of a numerical library do not matter to a child that only draws and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _draw_and_leave(noise, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        received = stream.read()
    os.waitpid(child, 0)
    if len(received) != 8 * _WORDS:
        raise FedboardError("a forked process could not draw noise; look at its message above")
    return np.frombuffer(received, dtype=np.uint64)


def _draw_and_leave(noise: NoiseSource, writing: int) -> None:
    try:
        os.write(writing, noise.stream("fork").bits(0, _WORDS).tobytes())
    finally:
        os._exit(0)
