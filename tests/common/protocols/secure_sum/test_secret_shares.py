"""Shares: enough give the secret, fewer say nothing, wrong ones are told."""

import secrets
from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.protocols.secure_sum import masking
from fedboard.common.protocols.secure_sum.masking import (
    NO_SHARE,
    combine,
    recover,
    split,
    usable,
)


def numbered(shares: list[bytes]) -> dict[int, bytes]:
    return dict(enumerate(shares, start=1))


@given(secret=st.binary(min_size=16, max_size=16), count=st.integers(1, 30), data=st.data())
@settings(max_examples=50, deadline=None)
def test_any_set_of_as_many_as_are_needed_gives_the_secret(
    secret: bytes, count: int, data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, count))
    shares = numbered(split(secret, needed=needed, count=count))
    chosen = data.draw(st.permutations(list(shares)))[:needed]

    assert combine({x: shares[x] for x in chosen}) == secret


def test_shares_are_the_values_of_the_polynomial(monkeypatch: pytest.MonkeyPatch) -> None:
    coefficients = iter([3, 2])
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(coefficients))

    shares = split((5).to_bytes(16, "little"), needed=3, count=4)

    assert [int.from_bytes(share, "little") for share in shares] == [
        3 * x * x + 2 * x + 5 for x in range(1, 5)
    ]


def test_fewer_shares_than_are_needed_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small field all polynomials can be tried: any two shares are as likely for one secret as another."""
    monkeypatch.setattr(masking, "_PRIME", 7)
    seen: dict[int, Counter[tuple[bytes, ...]]] = {}
    for secret, *coefficients in product(range(7), repeat=3):
        drawn = iter(coefficients)
        monkeypatch.setattr(secrets, "randbelow", lambda _, drawn=drawn: next(drawn))
        shares = split(secret.to_bytes(16, "little"), needed=3, count=4)
        seen.setdefault(secret, Counter()).update(combinations(shares, 2))
        assert combine(dict(list(numbered(shares).items())[1:])) == secret.to_bytes(16, "little")

    assert all(counts == seen[0] for counts in seen.values())
    assert sum(seen[0].values()) == 6 * 49


def test_wrong_shares_are_passed_over_and_too_many_are_told() -> None:
    secret = secrets.token_bytes(16)
    shares = numbered(split(secret, needed=5, count=12))
    wrong = {x: secrets.token_bytes(16) + b"\0" for x in (1, 4)}
    right = secret.__eq__

    assert combine({x: {**shares, **wrong}[x] for x in range(1, 6)}) != secret
    assert recover({**shares, **wrong}, needed=5, right=right) == secret
    everywhere = {x: secrets.token_bytes(16) + b"\0" for x in shares}
    assert recover(everywhere, needed=5, right=right) is None


def test_what_is_no_share_is_left_out() -> None:
    secret = secrets.token_bytes(16)
    shares = numbered(split(secret, needed=3, count=5))

    assert not usable(NO_SHARE)
    assert not usable(b"")
    assert recover({**shares, 1: NO_SHARE, 2: NO_SHARE}, needed=3, right=secret.__eq__) == secret
    assert recover({**shares, 1: NO_SHARE, 2: NO_SHARE, 3: b""}, needed=3, right=secret.__eq__) is None


def test_a_secret_of_another_length_or_too_few_shares_cannot_be_split() -> None:
    for secret, needed, count in ((b"short", 2, 3), (bytes(16), 4, 3), (bytes(16), 0, 3)):
        with pytest.raises(ValueError, match="16 bytes"):
            split(secret, needed=needed, count=count)
