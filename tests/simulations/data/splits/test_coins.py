"""Coins of a split: even, independent of each other, and of everything but the ids they belong to."""

from hashlib import blake2b

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

from fedboard.common.errors import InputError
from fedboard.simulations.data import Kind, id_keys
from fedboard.simulations.data.splits.coins import SplitCoins, below

FALSE_ALARM = 1e-9
KNOWN_KEYS = [14241890668637401057, 8420457581636734736]
KNOWN_COINS = [10008150925487662241, 11618251438001199246, 9514297987057704235, 13753323346667293416]
USERS, ITEMS = (id_keys(range(1, 1001), kind) for kind in (Kind.USER, Kind.ITEM))


def every_pair(coins: SplitCoins) -> np.ndarray:
    users, items = np.divmod(np.arange(USERS.size * ITEMS.size), ITEMS.size)
    return coins.of_ratings(USERS, ITEMS, users.astype(np.int32), items.astype(np.int32))


def even(words: np.ndarray, shift: int) -> float:
    """p-value of a chi-square test of eight bits of each word."""
    counts = np.bincount((words >> np.uint64(shift)).astype(np.uint8), minlength=256)
    return float(stats.chisquare(counts).pvalue)


@pytest.mark.parametrize("shift", [0, 20, 56])
def test_coins_of_ratings_are_even(shift):
    assert even(every_pair(SplitCoins(0)), shift) > FALSE_ALARM
    assert even(every_pair(SplitCoins(0)) | np.uint64(1 << shift), shift) < FALSE_ALARM  # negative control


def test_held_out_ratings_are_even_over_users_and_over_items():
    held_out = below(every_pair(SplitCoins(3)), 0.1).reshape(USERS.size, ITEMS.size)

    for axis in (0, 1):
        found = (held_out.sum(axis=axis) - 100) ** 2 / 90
        assert stats.chi2(1000).sf(found.sum()) > FALSE_ALARM
        assert stats.chi2(1000).cdf(found.sum()) > FALSE_ALARM


def test_held_out_ratings_of_two_users_or_two_items_or_two_seeds_have_nothing_to_do_with_each_other():
    first, other = (
        below(every_pair(SplitCoins(seed)), 0.5).reshape(USERS.size, ITEMS.size) for seed in (0, 1)
    )

    for a, b in ((first[:-1], first[1:]), (first[:, :-1], first[:, 1:]), (first, other), (first, first.T)):
        same = int(np.count_nonzero(a == b))
        assert stats.binomtest(same, a.size, 0.5).pvalue > FALSE_ALARM
    corners = first[:-1, :-1] ^ first[1:, :-1] ^ first[:-1, 1:] ^ first[1:, 1:]
    assert stats.binomtest(int(corners.sum()), corners.size, 0.5).pvalue > FALSE_ALARM


def test_coins_of_users_are_even():
    keys = id_keys(range(200_000), Kind.USER)

    assert even(SplitCoins(0).of_users(keys), 56) > FALSE_ALARM
    assert not np.array_equal(SplitCoins(0).of_users(keys), SplitCoins(1).of_users(keys))


def test_a_coin_is_the_same_whoever_else_is_there_and_wherever_it_stands():
    everybody = SplitCoins(7).of_ratings(USERS, ITEMS, np.array([5, 900, 5]), np.array([3, 3, 999]))
    alone = SplitCoins(7).of_ratings(
        USERS[[900, 5]], ITEMS[[999, 3]], np.array([1, 0, 1]), np.array([1, 1, 0])
    )

    assert_array_equal(everybody, alone)


def test_a_coin_is_the_same_wherever_it_stands_among_a_million():
    order = np.random.default_rng(0).permutation(USERS.size * ITEMS.size)
    users, items = (part.astype(np.int32) for part in np.divmod(order, ITEMS.size))

    shuffled = SplitCoins(7).of_ratings(USERS, ITEMS, users, items)

    assert_array_equal(shuffled, every_pair(SplitCoins(7))[order])


def test_coins_stay_what_they_are():
    # A change of these numbers is another split of every data set: results would no longer be comparable.
    users, items = id_keys(["1", "anna"], Kind.USER), id_keys([7], Kind.ITEM)

    assert users.tolist() == KNOWN_KEYS
    words = SplitCoins(0).of_ratings(users, items, np.array([0, 1]), np.array([0, 0]))
    assert [*SplitCoins(0).of_users(users).tolist(), *words.tolist()] == KNOWN_COINS


def test_an_id_has_one_key_as_number_and_as_text_and_another_as_an_item():
    assert_array_equal(id_keys([12], Kind.USER), id_keys(["12"], Kind.USER))
    assert id_keys([12], Kind.USER) != id_keys([12], Kind.ITEM)
    assert id_keys(["12"], Kind.USER) != id_keys(["012"], Kind.USER)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 3), (0.5, 1)])
def test_shares_include_their_ends(share, expected):
    words = np.array([0, 1 << 63, (1 << 64) - 1], dtype=np.uint64)

    assert below(words, share).sum() == expected


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="the seed of a split must be >= 0"):
        SplitCoins(-1)


def test_coins_are_what_the_docstring_says_worked_out_in_plain_python():
    def word(text: str, **more: bytes) -> int:
        return int.from_bytes(blake2b(text.encode(), digest_size=8, **more).digest(), "little")

    def mix(value: int) -> int:
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    key, item = word("anna", person=b"fedboard user"), word("7", person=b"fedboard item")
    secret = [word(f"fedboard split 5: {name}") for name in ("user, first", "user, second")]
    secret += [word(f"fedboard split 5: {name}") for name in ("item, first", "item, second", "whole user")]
    inner = mix((mix(key ^ secret[0]) + mix(item ^ secret[2])) % 2**64)
    pair = mix((inner + (mix(key ^ secret[1]) ^ mix(item ^ secret[3]))) % 2**64)
    keys, none = (id_keys(["anna"], Kind.USER), id_keys([7], Kind.ITEM)), np.array([0])

    assert SplitCoins(5).of_ratings(*keys, none, none).tolist() == [pair]
    assert SplitCoins(5).of_users(keys[0]).tolist() == [mix(mix(key ^ secret[4]))]
