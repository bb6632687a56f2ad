"""Noise that comes in shares: each client adds a part of it, and nobody has to add, or to know, the rest.

A sum of rounded Gaussians is, far below anything that counts, a rounded continuous Gaussian with more rounding on
top: a function of what the Gaussian mechanism would have published. docs/guide/noise.md has the proof.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import AbsentStream, NoiseSource, NoiseStream, shared_label

if TYPE_CHECKING:
    from fedboard.common.privacy.releases.gaussian import GaussianRelease

LEAST_DEVIATION = 5.0
"""Lattice units; with it the aliasing terms are below 1e-50."""
_NUMBERS_PER_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShares:
    """The noise of a release, divided so that any ``least`` honest shares make up all of it.

    A share is ``rint(N(0, s^2))`` on a lattice, with ``s = noise_stddev / sqrt(least)``.

    Guarantee: a sum with at least ``least`` shares that the adversary does not know is ``noise_multiplier``'s own
    Gaussian mechanism, and a function of its output on top: its trade-off curve is that of the release, but for
    ``aliasing(...)`` in total variation. Shares of clients that collude, and any further ones, change nothing.

    Reference: docs/guide/noise.md.
    """

    least: int
    """Honest shares that are in every sum; >= 1. Public."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: not a whole number >= 1.
        """
        require_whole("the least number of noise shares", self.least)

    def share_stddev(self, release: "GaussianRelease") -> float:
        """Deviation of one share on one isometric coordinate, grid units."""
        return release.noise_stddev / math.sqrt(self.least)

    def require_smooth(self, release: "GaussianRelease", *, shift: int) -> None:
        """Refuse a lattice that is too coarse for the shares.

        Args:
            release: public.
            shift: the lattice is 2^shift grid units.

        Raises:
            InputError: a share's deviation is below 5 lattice units in some column.
        """
        deviation = float(release.column_stddev().min()) / math.sqrt(self.least)
        if not math.ldexp(deviation, -shift) >= LEAST_DEVIATION:
            raise InputError(
                f"release {release.name!r}: with {self.least} noise shares a client's share has a deviation of "
                f"{math.ldexp(deviation, -shift):.3g} lattice units (2^{shift} grid units), and at least "
                f"{LEAST_DEVIATION:g} are needed; use fewer clients or users per sum, or a smaller epsilon"
            )

    def draw(
        self, release: "GaussianRelease", stream: NoiseStream, *, shift: int, shares: int = 1
    ) -> IntArray:
        """The shares of one client: ``rint(sqrt(shares) s_c / 2^shift N)``, s_c the share's deviation in column c.

        Args:
            release: public.
            stream: the client's own; draw number k is number k of the result, row by row. Secret.
            shift: the lattice is 2^shift grid units. Public.
            shares: how many shares' worth; >= 1.

        Returns:
            int64, shape (rows, width), lattice units. As secret as the stream.

        Raises:
            InputError: a lattice that is too coarse, or no whole share.
        """
        if shares < 1:
            raise InputError(f"a client adds at least one noise share, got {shares}")
        self.require_smooth(release, shift=shift)
        deviations = release.column_stddev() * math.sqrt(shares / self.least) * math.ldexp(1.0, -shift)
        return lattice_draws(release, stream, deviations)


def lattice_draws(release: "GaussianRelease", stream: NoiseStream, deviations: FloatArray) -> IntArray:
    """Rounded Gaussians ``rint(s_c N)`` for every number of a release; int64, shape (rows, width).

    Args:
        release: public.
        stream: draw number k is number k of the result, row by row. Secret.
        deviations: s_c of each column, lattice units.
    """
    drawn = np.empty((release.rows, release.width), dtype=np.int64)
    step = max(1, _NUMBERS_PER_BLOCK // release.width)
    for first in range(0, release.rows, step):
        part = drawn[first : first + step]
        part[:] = np.rint(stream.normal(first * release.width, part.size).reshape(part.shape) * deviations)
    return drawn


def aliasing(*, clients: int, deviation: float) -> float:
    """How far the law of one number of a sum of shares is from the claimed one: bound in total variation.

    ``1.28 (n + 1) q (n / 2 + 16 s sqrt(n) + 1) + exp(-128)`` with ``q = exp(-pi^2 s^2 / 2)``.

    Args:
        clients: n >= 1, shares in the sum.
        deviation: s > 0 of one share, lattice units.
    """
    alias = math.exp(-((math.pi * deviation) ** 2) / 2)
    numbers = clients / 2 + 16 * deviation * math.sqrt(clients) + 1
    return 1.28 * (clients + 1) * alias * numbers + math.exp(-128)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNoise:
    """What a server books as its source of noise where the clients add it.

    Its events state how many honest shares make up the noise; the streams give nothing. Not guaranteed here: that
    the shares were drawn; that is what the protocol's trust sentences are about.
    """

    least: int
    """Honest shares that are in every sum; >= 1. Public."""
    drawn: NoiseSource
    """The source of the run: clients draw their shares from such a one, the server its coins."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: ``least`` is not a whole number >= 1.
        """
        NoiseShares(least=self.least)

    @property
    def private(self) -> bool:
        """Whether the clients' draws are unpredictable."""
        return self.drawn.private

    @property
    def label(self) -> str:
        """What ledger and certificate say about the source."""
        return shared_label(self.least, self.drawn.label)

    def describe(self) -> dict[str, Any]:
        """Public fields for the event: those of the drawn source, and how many shares make up the noise."""
        return {**self.drawn.describe(), "noise": self.label, "shares": {"least": self.least}}

    def stream(self, name: str) -> AbsentStream:
        """No stream: whoever draws from it is refused."""
        return AbsentStream.of(private=self.private)


def coins_of(noise: NoiseSource) -> NoiseSource:
    """Where the server's own coins come from, who takes part in a round say."""
    return noise.drawn if isinstance(noise, SharedNoise) else noise
