"""Sealed replies: whoever asked reads exactly what was said, and nobody else reads or changes anything."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.wire import sealing
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.common.wire.sealing import KEY_BYTES, Envelope, ReplyKey, is_sealed

KEY = ReplyKey()
ABOUT = b"run-1\n3\nabc"
REPLY = b"she rated item 7 with a 5" * 9
MAGIC = b"FBSEAL01"
OVERHEAD = 8 + 32 + 16

LOW_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
    (2**255 - 18).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
]
"""All points whose multiples are few: with them a secret would be known to everybody."""


def seal(reply: bytes = REPLY, *, key: bytes = KEY.public, about: bytes = ABOUT) -> bytes:
    return Envelope.to(key, about=about).seal(reply)


def refused(content: bytes, *, key: ReplyKey = KEY, about: bytes = ABOUT) -> bool:
    with pytest.raises(RefusedError) as error:
        key.open(content, about=about)
    assert error.value.__context__ is None or error.value.__suppress_context__  # what failed is not said
    return error.value.code is Refusal.MALFORMED


@settings(max_examples=200, deadline=None)
@given(reply=st.binary(max_size=3000), about=st.binary(max_size=100))
def test_what_was_said_comes_out(reply: bytes, about: bytes) -> None:
    content = seal(reply, about=about)

    assert is_sealed(content)
    assert len(content) == len(reply) + OVERHEAD
    assert KEY.open(content, about=about) == reply


def test_any_flipped_bit_is_noticed() -> None:
    content = seal(b"yes")
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            assert refused(bytes(changed))


def test_whatever_is_cut_off_or_added_is_noticed() -> None:
    content = seal(b"yes")

    assert all(refused(content[:length]) for length in range(len(content)))
    assert all(refused(content[start:]) for start in range(1, len(content)))
    assert refused(content + b"\0")


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200), magic=st.booleans())
def test_bytes_that_nobody_sealed_are_malformed(content: bytes, magic: bool) -> None:
    assert refused(MAGIC + content if magic else content)


def test_no_other_key_opens_it() -> None:
    assert refused(seal(), key=ReplyKey())
    assert refused(seal(key=ReplyKey().public))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(about=st.binary(max_size=100).filter(lambda about: about != ABOUT))
def test_a_reply_to_one_question_is_none_to_another(about: bytes) -> None:
    assert refused(seal(), about=about)


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda point: point[:2].hex())
def test_a_point_that_makes_every_secret_the_same_is_refused_on_both_sides(point: bytes) -> None:
    with pytest.raises(RefusedError) as error:
        Envelope.to(point, about=ABOUT)
    assert error.value.code is Refusal.MALFORMED

    known = HKDF(
        algorithm=SHA256(), length=32, salt=None, info=b"fedboard reply 1" + point + KEY.public
    ).derive(bytes(32))
    assert refused(MAGIC + point + ChaCha20Poly1305(known).encrypt(bytes(12), REPLY, ABOUT))


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_a_key_of_another_length_is_none(length: int) -> None:
    with pytest.raises(RefusedError) as error:
        Envelope.to(KEY.public[:1] * length, about=ABOUT)
    assert error.value.code is Refusal.MALFORMED


def test_two_seals_of_one_reply_have_nothing_in_common_and_say_nothing() -> None:
    one, other = (seal(REPLY)[len(MAGIC) :] for _ in range(2))
    windows = [
        {content[start : start + 16] for start in range(len(content) - 15)} for content in (one, other, REPLY)
    ]

    assert not windows[0] & windows[1]
    assert not (windows[0] | windows[1]) & windows[2]


def test_each_key_is_new_and_its_secret_is_shown_nowhere() -> None:
    keys = [ReplyKey() for _ in range(8)]
    assert len({key.public for key in keys}) == 8
    assert {len(key.public) for key in keys} == {KEY_BYTES}

    key, envelope = keys[0], Envelope.to(keys[0].public, about=ABOUT)
    secret = key._private.private_bytes_raw()
    shown = f"{key!r} {key} {envelope!r} {envelope}"
    assert secret.hex() not in shown
    assert repr(secret) not in shown
    assert "about" not in repr(envelope)


def test_the_format_is_the_one_that_is_written_down() -> None:
    """X25519, HKDF-SHA256 without salt, ChaCha20-Poly1305 under a nonce of zeros, from the primitives alone."""
    private = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    sender = private.public_key().public_bytes_raw()
    shared = private.exchange(X25519PublicKey.from_public_bytes(KEY.public))
    info = b"fedboard reply 1" + sender + KEY.public
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared)

    content = b"FBSEAL01" + sender + ChaCha20Poly1305(key).encrypt(bytes(12), REPLY, ABOUT)

    assert KEY.open(content, about=ABOUT) == REPLY


KNOWN = (
    "46425345414c3031a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209"
    "c278c34709df572849ba5c832805b2b247fa15de5b"
)


def test_a_known_answer_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves with fixed secrets: what is sealed today is opened by every later version."""
    ours, theirs = (X25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))

    class Fixed(X25519PrivateKey):  # its generate() alone is used
        secrets = iter((theirs, ours))

        @classmethod
        def generate(cls) -> X25519PrivateKey:
            return next(cls.secrets)

    monkeypatch.setattr(sealing, "X25519PrivateKey", Fixed)
    key = ReplyKey()

    content = Envelope.to(key.public, about=b"run\n0\nboard").seal(b"reply")

    assert content.hex() == KNOWN
    assert key.open(content, about=b"run\n0\nboard") == b"reply"
