"""What is left of a protocol's sums when what cancels in them is left out: for large simulations and audits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocols.sums.residues import Packing

Cut = Callable[[Contribution, bytes, Sequence[Request]], Contribution]
"""(rows, about the round, requests) -> the rows as they are sent. Private."""
SecondNoise = Callable[[Packing, NoiseSource], Mapping[str, IntArray]]
"""(of the round, second server's source) -> by release name, int64, (rows, width), units of 2^shift. Secret."""


def whole(contribution: Contribution, about: bytes, requests: Sequence[Request]) -> Contribution:
    """Every row is sent as it is."""
    return contribution


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsLeft:
    """The sum of truncated contributions on a packing, and the noise on top."""

    packing: Callable[[Sequence[Request]], Packing]
    fewest: int
    """Clients whose contributions make a sum."""
    gives_at_once: bool
    """Whether the first step asks for contributions."""
    shares: NoiseShares | None = None
    """How clients draw their noise; None where they draw none."""
    shares_per_user: bool = False
    """Whether a client adds a share for each of its users, or one in all."""
    noise_shares: Callable[[int], int] = lambda clients: 0
    """What the sums state, from the number of clients that gave."""
    noise_ratio: float = 1.0
    """Likewise."""
    cut: Cut = whole
    """What of a user's rows is sent."""
    second_noise: SecondNoise | None = None
    """What a second server adds; None where there is none."""
