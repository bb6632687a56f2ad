"""Keys: the published vectors of X25519, and points that everybody would share a secret with.

Masks: published vectors of what they are made of, and that no two are alike.

What two neighbours share: a mask that cancels, and boxes that only they can open.

Shares: enough give the secret, fewer say nothing, wrong ones are told.
"""

import hashlib
import hmac
import secrets
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.messages.refusals import RefusedError
from fedboard.common.protocols.secure_sum import masking
from fedboard.common.protocols.secure_sum.masking import (
    BOX_BYTES,
    NO_SHARE,
    KeyPair,
    Mask,
    apply_masks,
    close_box,
    combine,
    derive_key,
    key_stream,
    open_box,
    recover,
    require_usable,
    split,
    usable,
)
from fedboard.common.protocols.secure_sum.members import (
    Advertised,
    Secrets,
    commitment_to,
    pair_mask,
    self_mask,
)

LOW_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)
SESSION = bytes(range(32))


def test_secrets_are_shared_as_rfc_7748_publishes_it() -> None:
    """Section 6.1."""
    alice = KeyPair.of(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    bob = KeyPair.of(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))

    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.shared(bob.public).hex() == bob.shared(alice.public).hex() == shared


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_point_of_low_order_is_refused(point: str) -> None:
    pair = Secrets.fresh().mask_pair(SESSION)

    with pytest.raises(RefusedError):
        pair.shared(bytes.fromhex(point))
    with pytest.raises(RefusedError):
        require_usable(bytes.fromhex(point))
    for place in range(2):
        keys = [pair.public, pair.public, bytes(32)]
        keys[place] = bytes.fromhex(point)
        with pytest.raises(RefusedError):
            Advertised(b"".join(keys)).require_usable()


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(RefusedError):
        require_usable(b"\t" * length)


def test_keys_and_commitment_follow_from_the_secrets_and_the_session() -> None:
    secrets = Secrets.fresh()
    told = secrets.advertised(SESSION)

    assert told == secrets.advertised(SESSION)
    assert told.mask_key == secrets.mask_pair(SESSION).public
    assert told.share_key == secrets.share_pair().public
    assert told.commitment == commitment_to(secrets.self_seed, session=SESSION)
    assert told.mask_key != secrets.advertised(bytes(32)).mask_key
    assert told.commitment != secrets.advertised(bytes(32)).commitment


def test_no_two_sessions_have_a_secret_in_common_and_none_is_printed() -> None:
    several = [Secrets.fresh() for _ in range(50)]
    found = {part for each in several for part in (each.self_seed, each.mask_seed, each.share_private)}

    assert len(found) == 150
    assert repr(several[0]) == "Secrets()"


def hkdf(secret: bytes, info: bytes, length: int, *, salt: bytes = b"") -> bytes:
    """RFC 5869, written out."""
    key = hmac.digest(salt or bytes(32), secret, "sha256")
    out = block = b""
    for number in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + info + bytes([number]), "sha256")
        out += block
    return out[:length]


def mask_of(key: bytes, count: int) -> np.ndarray:
    vector = np.zeros(count, dtype=np.uint32)
    apply_masks(vector, [Mask(key=key, added=True)])
    return vector


def test_the_stream_is_counter_mode_as_nist_publishes_it() -> None:
    """SP 800-38A, F.5.5."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    stream = key_stream(key, counter=int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16))

    assert stream.update(plain).hex() == (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("80" + 31 * "00", "e35a6dcb19b201a01ebcfa8aa22b5759"),
        ("c0" + 31 * "00", "b29169cdcf2d83e838125a12ee6aa400"),
        ("e0" + 31 * "00", "d8f3a72fc3cdf74dfaf6c3e6b97b2fa6"),
    ],
)
def test_the_first_words_of_a_mask_are_the_block_cipher_of_zero(key: str, first: str) -> None:
    """AESAVS, variable key known answers for 256 bits: the cipher of a block of zeros."""
    assert mask_of(bytes.fromhex(key), 4).astype("<u4").tobytes().hex() == first


def test_keys_are_hkdf_of_the_whole_secret_bound_to_use_session_and_parties() -> None:
    known = hkdf(
        bytes([0x0B] * 22),
        bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"),
        42,
        salt=bytes.fromhex("000102030405060708090a0b0c"),
    )
    assert known.hex().startswith("3cb25f25faacd57a90434f64d0362f2a")  # RFC 5869, A.1
    assert hkdf(bytes([0x0B] * 22), b"", 42).hex().startswith("8da4e775a563c18f715f802a063c5a31")  # A.3
    session, parties = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()

    found = derive_key(b"\7" * 32, use=b"pair-mask", session=session, parties=parties)

    assert found == hkdf(b"\7" * 32, b"fedboard masks 1 \x09pair-mask" + session + parties, 32)


@given(count=st.integers(0, 40_000), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_masks_of_any_length_are_the_stream_and_are_taken_away_again(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vector = random.integers(0, 1 << 32, count, dtype=np.uint32)
    masks = [Mask(key=random.bytes(32), added=bool(added)) for added in random.integers(0, 2, 3)]
    masked = vector.copy()

    apply_masks(masked, masks)

    expected = vector.copy()
    for mask in masks:
        words = np.frombuffer(key_stream(mask.key).update(bytes(4 * count)), dtype="<u4")
        expected = expected + words if mask.added else expected - words
    np.testing.assert_array_equal(masked, expected)
    apply_masks(masked, [mask.reverse for mask in masks])
    np.testing.assert_array_equal(masked, vector)


def test_a_mask_is_not_printed() -> None:
    assert "key" not in repr(Mask(key=bytes(32), added=True))


def test_no_word_of_a_mask_serves_twice() -> None:
    """As a counter that is set back at a chunk's end would have it."""
    blocks = mask_of(bytes(range(32)), 1 << 18).view(np.uint64).reshape(-1, 2)

    assert len(np.unique(blocks, axis=0)) == len(blocks)


PAIRS, OTHER = bytes(32), b"\1" * 32
SHARES = (b"a" * 17, b"b" * 17)


def test_the_masks_of_two_neighbours_cancel() -> None:
    ours, theirs = Secrets.fresh(), Secrets.fresh()
    we, they = ours.advertised(PAIRS), theirs.advertised(PAIRS)
    vector = np.arange(1000, dtype=np.uint32)

    apply_masks(vector, [pair_mask(ours.mask_pair(PAIRS), we.identity, they, session=PAIRS)])
    assert (vector != np.arange(1000)).mean() > 0.99
    apply_masks(vector, [pair_mask(theirs.mask_pair(PAIRS), they.identity, we, session=PAIRS)])

    np.testing.assert_array_equal(vector, np.arange(1000))


def test_no_two_masks_of_a_client_have_a_key_in_common() -> None:
    several = [Secrets.fresh() for _ in range(5)]
    keys = []
    for session in (PAIRS, OTHER):
        told = [secrets.advertised(session) for secrets in several]
        keys += [self_mask(secrets.self_seed, session=session).key for secrets in several]
        keys += [
            pair_mask(several[a].mask_pair(session), told[a].identity, told[b], session=session).key
            for a in range(5)
            for b in range(a)
        ]

    assert len(set(keys)) == len(keys) == 2 * (5 + 10)


def test_a_box_is_opened_by_its_receiver_for_its_session_and_sender_alone_and_unchanged() -> None:
    sender, receiver, stranger = (Secrets.fresh() for _ in range(3))
    own, to = sender.advertised(PAIRS), receiver.advertised(PAIRS)
    parties = own.identity + to.identity
    box = close_box(sender.share_pair(), to.share_key, SHARES, session=PAIRS, parties=parties)
    turned = parties[32:] + parties[:32]

    def opened(
        secrets: Secrets, *, session: bytes = PAIRS, parties: bytes, box: bytes
    ) -> tuple[bytes, bytes]:
        return open_box(secrets.share_pair(), own.share_key, box, session=session, parties=parties)

    assert len(box) == BOX_BYTES
    assert opened(receiver, parties=parties, box=box) == SHARES
    nothing = (NO_SHARE, NO_SHARE)
    assert opened(stranger, parties=parties, box=box) == nothing
    assert opened(receiver, session=OTHER, parties=parties, box=box) == nothing
    assert opened(receiver, parties=turned, box=box) == nothing
    assert opened(receiver, parties=parties, box=bytes(BOX_BYTES)) == nothing
    for place in (0, 16, 33, 49):
        changed = bytearray(box)
        changed[place] ^= 1
        assert opened(receiver, parties=parties, box=bytes(changed)) == nothing


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
