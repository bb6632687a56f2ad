"""The coins of a split: each belongs to one user, or to one rating of hers, and to nothing else in the data set.

A split is made before anything is released, so it is part of the mechanism: where one user's presence moves other
people's ratings between training and test, her true sensitivity is theirs as well. A coin is therefore a function
of a public seed and of *ids* as the file has them (a user's, or a user's and an item's), never of row numbers, of
positions, or of how many others there are.
"""

import math
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, IndexArray
from fedboard.common.contribution_bounding.mixing import mix64
from fedboard.common.errors import InputError

_SECRETS = ("user, first", "user, second", "item, first", "item, second", "whole user")
_CIRCLE = 1 << 64
_RATINGS_AT_ONCE = 1 << 18  # stays in cache


@dataclass(frozen=True, slots=True)
class SplitCoins:
    """Coins of one public seed: words of 64 bits, evenly spread.

    With ``mix`` the permutation ``contribution_bounding.mixing.mix64``, key the 64-bit BLAKE2b digest of an id,
    and s0, s1, ... words that BLAKE2b derives from the seed, the coin of a user is ``mix(mix(key ^ s4))`` and that
    of a rating ``mix(mix(u0 + i0) + (u1 ^ i1))``, where ``u0 = mix(user key ^ s0)``, ``u1 = mix(user key ^ s1)``
    and i0, i1 likewise for the item. Since sums and exclusive ors do not distribute over each other, the coins of
    two users and two items follow no common rule; two ratings share a coin only where 64-bit words happen to meet.

    The guarantee rests on *whose* a coin is, not on its being secret: the seed is public, and everybody can compute
    every coin. So no cryptographic strength is claimed for the mixing, which is there to be even and quick.

    Guarantee: a coin depends on the seed and on its own keys, in whatever data set they occur.
    """

    seed: int
    """>= 0. Public."""

    def __post_init__(self) -> None:
        """Check the seed.

        Raises:
            InputError: it is negative.
        """
        if self.seed < 0:
            raise InputError(f"the seed of a split must be >= 0, got {self.seed}; give another.")

    def of_users(self, user_keys: BitArray) -> BitArray:
        """A word for each user, uint64, shape (n_users,).

        Args:
            user_keys: as from ``fedboard.simulations.data.id_keys``. Private.
        """
        return mix64(mix64(user_keys ^ self._secret(4)))

    def of_ratings(
        self, user_keys: BitArray, item_keys: BitArray, users: IndexArray, items: IndexArray
    ) -> BitArray:
        """A word for each rating, uint64, shape (n_ratings,).

        Args:
            user_keys: uint64, shape (n_users,). Private.
            item_keys: uint64, shape (n_items,). Public.
            users: whose each rating is: positions in ``user_keys``, shape (n_ratings,). Private.
            items: of what: positions in ``item_keys``, shape (n_ratings,). Private.
        """
        user, item = self.halves(user_keys, item_keys)
        found = np.empty(users.size, dtype=np.uint64)
        for start in range(0, users.size, _RATINGS_AT_ONCE):
            part = slice(start, start + _RATINGS_AT_ONCE)
            whose, what = users[part], items[part]
            word = mix64(user[0][whose] + item[0][what])
            found[part] = mix64(word + (user[1][whose] ^ item[1][what]))
        return found

    def halves(
        self, user_keys: BitArray, item_keys: BitArray
    ) -> tuple[tuple[BitArray, BitArray], tuple[BitArray, BitArray]]:
        """What of ratings' coins follows from users alone, (u0, u1), and from items alone, (i0, i1); uint64."""
        u0, u1, i0, i1 = (
            mix64(keys ^ self._secret(number))
            for number, keys in enumerate((user_keys, user_keys, item_keys, item_keys))
        )
        return (u0, u1), (i0, i1)

    def _secret(self, number: int) -> np.uint64:
        text = f"fedboard split {self.seed}: {_SECRETS[number]}".encode()
        return np.uint64(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))


def below(words: BitArray, share: float) -> BoolArray:
    """Which coins fall within the first ``share`` of the circle: bool, as many as words.

    Args:
        words: of 64 bits.
        share: in [0, 1]; the exact probability is ``floor(2^64 share) / 2^64``. Public.
    """
    return np.full(words.shape, True) if share == 1 else words < np.uint64(first_words(share))


def first_words(share: float) -> int:
    """How many words of 64 bits are the first ``share`` of all, rounded down; 2^64 for 1. Public."""
    return math.floor(math.ldexp(share, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One of k parts into which coins of 64 bits fall.

    Number f has those from ``floor(f 2^64 / k)`` to below ``floor((f + 1) 2^64 / k)``. So every coin is in one fold
    of k, exactly, and which one depends on the coin and on two public numbers alone.
    """

    number: int
    """In 0..of - 1. Public."""
    of: int
    """k, >= 2. Public."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: there are fewer than two folds, or no such fold.
        """
        if self.of < 2:
            raise InputError(f"split.folds must be >= 2, got {self.of}; 10 test on a tenth each.")
        if not 0 <= self.number < self.of:
            raise InputError(
                f"split.fold must be in 0..{self.of - 1}, since there are {self.of} folds, got {self.number}."
            )

    @property
    def share(self) -> float:
        """Probability of a fold."""
        return 1 / self.of

    def held_out(self, words: BitArray, *, validation: float) -> tuple[BoolArray, BoolArray]:
        """Which coins are held out for the test, and which for the test or for validation.

        What is for validation lies behind the fold on the circle, so that folds of one k share nothing but that.

        Args:
            words: coins of 64 bits, from ``SplitCoins``.
            validation: probability of that part, in [0, 1 - share). Public.

        Returns:
            Two arrays, bool, as many as words; the first within the second.
        """
        start, size = self._own()
        both = self.arc(validation=validation)[1]
        behind = words - np.uint64(start)  # around the circle
        return behind < np.uint64(size), behind < np.uint64(both)

    def arc(self, *, validation: float) -> tuple[int, int]:
        """Where test and validation lie: the first word, and how many from it on around the circle. Public."""
        start, size = self._own()
        return start, min(size + first_words(validation), _CIRCLE - 1)

    def _own(self) -> tuple[int, int]:
        start, stop = (number * _CIRCLE // self.of for number in (self.number, self.number + 1))
        return start, stop - start


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """By which coins a split was made, for whoever has to see that it holds. Public."""

    coins: SplitCoins
    validation: float
    """Probability of this part: of each rating, or of each user; in [0, 1)."""
    test: float
    """Likewise; with folds that of one of them."""
    fold: Fold | None = None
    """Which coins mean test; None: the smallest."""

    def __post_init__(self) -> None:
        """Check the shares.

        Raises:
            InputError: below 0, or they leave nothing to learn from.
        """
        if not (min(self.validation, self.test) >= 0 and self.validation + self.test < 1):
            raise InputError(
                "the shares of validation and test must be >= 0 and add up to less than 1, "
                f"got {self.validation:g} and {self.test:g}; lower them."
            )

    def parts(self, words: BitArray) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Which coins mean training, validation, test; bool. What is tested does not depend on the other share."""
        if self.fold is not None:
            test, held_out = self.fold.held_out(words, validation=self.validation)
        else:
            test, held_out = below(words, self.test), below(words, self.test + self.validation)
        return ~held_out, held_out & ~test, test

    def held_out_arc(self) -> tuple[int, int]:
        """Where on the circle of coins what is not learnt from lies, as ``parts`` has it: a word, and how many
        from it on; both below 2^64.
        """
        if self.fold is None:
            return 0, first_words(self.test + self.validation)
        return self.fold.arc(validation=self.validation)
