"""Taking the masks away from a sum, from the shares that the clients who stayed give."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray
from fedboard.common.errors import TooFewAnswersError
from fedboard.common.protocols.secure_sum.advertised import commitment_to, pair_mask, self_mask
from fedboard.common.protocols.secure_sum.masking import KeyPair, Mask, apply_masks, recover
from fedboard.common.protocols.secure_sum.neighbours import Graph


@dataclass(slots=True, kw_only=True, repr=False)
class Unmasking:
    """The shares of one session, and what they give. Holds 17 k bytes for each client that gave shares."""

    graph: Graph
    session: bytes
    there: BoolArray
    """bool, shape (n,): who took part in the masking."""
    stayed: BoolArray
    """bool, shape (n,): whose masked numbers are in the sum."""
    shares: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """By client: uint8, shape (k, 17), of each of its neighbours one."""

    def unmask(self, total: NDArray[np.uint32]) -> None:
        """Take all masks away, in place.

        For each client that stayed, its self-mask; for each that dropped out, the masks that its neighbours who
        stayed share with it. No client's both seeds are ever asked for.

        Args:
            total: uint32, shape (numbers,): the sum of the masked vectors.

        Raises:
            TooFewAnswersError: the shares of a secret are too few, or too many of them are wrong.
        """
        own = [self._own(client) for client in np.flatnonzero(self.stayed).tolist()]
        apply_masks(total, own)
        for client in np.flatnonzero(self.there & ~self.stayed).tolist():
            apply_masks(total, self._shared(client))

    def _own(self, client: int) -> Mask:
        commitment = self.graph.advertised[client].commitment
        seed = self._seed(client, lambda seed: commitment_to(seed, session=self.session) == commitment)
        return self_mask(seed, session=self.session).reverse

    def _shared(self, client: int) -> Iterator[Mask]:
        """The masks that a client would have added, which would have cancelled those of its neighbours."""
        advertised = self.graph.advertised[client]
        seed = self._seed(
            client, lambda seed: KeyPair.from_seed(seed, session=self.session).public == advertised.mask_key
        )
        pair = KeyPair.from_seed(seed, session=self.session)
        for other in self.graph.joined[client].tolist():
            if self.stayed[other]:
                peer = self.graph.advertised[other]
                yield pair_mask(pair, advertised.identity, peer, session=self.session)

    def _seed(self, client: int, right: Callable[[bytes], bool]) -> bytes:
        shares = {
            number: self.shares[other][place].tobytes()
            for number, (other, place) in enumerate(
                zip(self.graph.joined[client].tolist(), self.graph.places(client).tolist(), strict=True),
                start=1,
            )
            if other in self.shares
        }
        seed = recover(shares, needed=self.graph.around.needed, right=right)
        if seed is None:
            raise TooFewAnswersError(
                f"a mask could not be taken away: {self.graph.around.needed} right shares are needed of "
                f"{len(shares)}; nothing was released",
                given=True,
            )
        return seed
