"""Secrets of 16 bytes in shares: any ``needed`` of them give the secret, fewer say nothing at all about it.

Shamir's scheme modulo the prime 2^130 - 5: share x is the value at x of a random polynomial of degree needed - 1
whose value at 0 is the secret. Python's whole numbers carry it; how long that takes may depend on them, which is
not hidden here.

Reference: Shamir (1979), doi:10.1145/359168.359176.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from math import prod

SECRET_BYTES = 16
SHARE_BYTES = 17
NO_SHARE = b"\xff" * SHARE_BYTES
"""Stands where there is none: larger than the prime, so no share."""
_PRIME = 2**130 - 5
_MOST_TRIES = 64


def split(secret: bytes, *, needed: int, count: int) -> list[bytes]:
    """Shares number 1 to ``count``, 17 bytes each.

    Args:
        secret: 16 bytes.
        needed: how many give it back, 1 to ``count``.
        count: how many there are.
    """
    if len(secret) != SECRET_BYTES or not 1 <= needed <= count:
        raise ValueError(f"a secret of {SECRET_BYTES} bytes and 1 <= needed <= count are asked for")
    higher = [secrets.randbelow(_PRIME) for _ in range(needed - 1)]
    lowest = int.from_bytes(secret, "little")
    return [_value(higher, lowest, x).to_bytes(SHARE_BYTES, "little") for x in range(1, count + 1)]


def combine(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret that all these shares together give; None where it would not have 16 bytes.

    Args:
        shares: by number, exactly as many as are needed, each one ``usable``.
    """
    points = {x: int.from_bytes(share, "little") for x, share in shares.items()}
    total, product = 0, prod(points)
    for x, value in points.items():  # Lagrange: the product of all other / (other - x)
        below = x
        for other in points:
            if other != x:
                below = below * (other - x) % _PRIME
        total += value * pow(below, -1, _PRIME)
    secret = total * product % _PRIME
    return secret.to_bytes(SECRET_BYTES, "little") if secret.bit_length() <= 8 * SECRET_BYTES else None


def usable(share: bytes) -> bool:
    """Whether these bytes are a number below the prime."""
    return len(share) == SHARE_BYTES and int.from_bytes(share, "little") < _PRIME


def recover(shares: Mapping[int, bytes], *, needed: int, right: Callable[[bytes], bool]) -> bytes | None:
    """The secret, although some shares may be wrong.

    Tries sets of shares until one gives a secret that is right: the first ones, then random ones, 64 in all. With a
    share of w wrong ones and ``needed`` of them to a set, a set is right with probability (1 - w)^needed or more
    where there are many to choose from; a few wrong shares are passed over, many are not.

    Args:
        shares: by number; those that are not ``usable`` are left out.
        needed: how many give the secret.
        right: whether it is the one that was committed to.

    Returns:
        16 bytes, or None where no set was found.
    """
    known = {x: share for x, share in shares.items() if usable(share)}
    if len(known) < needed:
        return None
    for chosen in _choices(list(known), needed):
        secret = combine({x: known[x] for x in chosen})
        if secret is not None and right(secret):
            return secret
    return None


def _choices(numbers: list[int], needed: int) -> Iterator[list[int]]:
    yield numbers[:needed]
    if len(numbers) > needed:
        random = secrets.SystemRandom()
        yield from (random.sample(numbers, needed) for _ in range(_MOST_TRIES - 1))


def _value(higher: list[int], lowest: int, x: int) -> int:
    value = 0
    for coefficient in higher:
        value = (value + coefficient) * x % _PRIME
    return (value + lowest) % _PRIME
