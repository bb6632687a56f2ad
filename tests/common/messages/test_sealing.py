"""Sealed replies: whoever asked reads exactly what was said, and nobody else reads or changes anything."""

import hashlib
import hmac
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import KEY_BYTES, Envelope, ReplyKey, is_sealed

KEY = ReplyKey()
ABOUT = b"run-1\n3\nabc"
REPLY = b"she rated item 7 with a 5" * 9
MAGIC = b"FBSEAL02"

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
    other = re.match(rb"FBSEAL\d\d", content) and not content.startswith(MAGIC)
    return error.value.code is (Refusal.WRONG_VERSION if other else Refusal.MALFORMED)


@settings(max_examples=200, deadline=None)
@given(reply=st.binary(max_size=3000), about=st.binary(max_size=100))
def test_what_was_said_comes_out(reply: bytes, about: bytes) -> None:
    content = seal(reply, key=KEY.public, about=about)

    assert is_sealed(content)
    assert len(content) == len(reply) + len(b"FBSEAL02") + 1 + 1120 + 16
    assert KEY.open(content, about=about) == reply


def test_any_changed_byte_of_a_seal_is_noticed() -> None:
    key = KEY
    content = seal(b"yes", key=key.public)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        assert refused(bytes(changed), key=key)


def test_whatever_is_cut_off_or_added_is_noticed() -> None:
    content = seal(b"yes", key=KEY.public)

    assert all(refused(content[:length], key=KEY) for length in range(len(content)))
    assert all(refused(content[start:], key=KEY) for start in range(1, len(content)))
    assert refused(content + b"\0", key=KEY)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200), magic=st.booleans())
def test_bytes_that_nobody_sealed_are_malformed(content: bytes, magic: bool) -> None:
    assert refused(MAGIC + content if magic else content)


def test_no_other_key_opens_it() -> None:
    assert refused(seal(), key=ReplyKey())


def test_half_of_a_hybrid_key_opens_nothing() -> None:
    """Whoever breaks X25519, or ML-KEM, has one secret of two."""
    key = KEY
    content = seal(key=key.public)
    for halves in (
        (MLKEM768PrivateKey.generate(), key._private),
        (key._lattice, X25519PrivateKey.generate()),
    ):
        thief = ReplyKey()
        thief._opens = MLKEM768X25519PrivateKey(*halves)
        assert refused(content, key=thief)
    thief._opens = MLKEM768X25519PrivateKey(key._lattice, key._private)
    assert thief.open(content, about=ABOUT) == REPLY


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(about=st.binary(max_size=100).filter(lambda about: about != ABOUT))
def test_a_reply_to_one_question_is_none_to_another(about: bytes) -> None:
    assert refused(seal(), about=about)


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda point: point[:2].hex())
def test_a_point_that_makes_every_secret_the_same_is_refused(point: bytes) -> None:
    with pytest.raises(RefusedError) as error:
        Envelope.to(KEY.public[:-32] + point, about=ABOUT)
    assert error.value.code is Refusal.MALFORMED


@pytest.mark.parametrize("length", [0, 1, 31, 32, 34, 64, 1216, 1218])
def test_a_key_of_another_length_is_none(length: int) -> None:
    with pytest.raises(RefusedError) as error:
        Envelope.to((KEY.public[:1] + KEY.public[1:2] * 2000)[:length], about=ABOUT)
    assert error.value.code is Refusal.MALFORMED


def test_two_seals_of_one_reply_have_nothing_in_common_and_say_nothing() -> None:
    one, other = (seal(REPLY)[len(MAGIC) :] for _ in range(2))
    windows = [
        {content[start : start + 16] for start in range(len(content) - 15)} for content in (one, other, REPLY)
    ]

    assert not windows[0] & windows[1]
    assert not (windows[0] | windows[1]) & windows[2]


def test_one_envelope_seals_each_reply_anew() -> None:
    envelope = Envelope.to(KEY.public, about=ABOUT)

    one, other = (envelope.seal(REPLY)[len(MAGIC) + 1 :] for _ in range(2))

    assert not {one[k : k + 16] for k in range(len(one) - 15)} & {
        other[k : k + 16] for k in range(len(other) - 15)
    }


def test_each_key_is_new_and_its_secret_is_shown_nowhere() -> None:
    keys = [ReplyKey() for _ in range(8)]
    assert len({key.public for key in keys}) == 8
    assert {len(key.public) for key in keys} == {KEY_BYTES}

    key, envelope = keys[0], Envelope.to(keys[0].public, about=ABOUT)
    shown = f"{key!r} {key} {envelope!r} {envelope}"
    for secret in (key._private.private_bytes_raw(), key._lattice.private_bytes_raw()):
        assert secret.hex() not in shown
        assert repr(secret) not in shown
    assert "about" not in repr(envelope)


def test_a_key_and_a_seal_of_the_version_before_are_refused_as_such() -> None:
    with pytest.raises(RefusedError) as error:
        KEY.open(b"FBSEAL01" + bytes(200), about=ABOUT)
    assert error.value.code is Refusal.WRONG_VERSION
    assert is_sealed(b"FBSEAL01" + bytes(200))

    with pytest.raises(RefusedError) as error:
        Envelope.to(b"\3" + bytes(99), about=ABOUT)  # a suite that is still to come
    assert error.value.code is Refusal.WRONG_VERSION


def extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    """``LabeledExtract`` of RFC 9180, section 4."""
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + label + secret, hashlib.sha256).digest()


def expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """``LabeledExpand``."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return HKDFExpand(algorithm=SHA256(), length=length, info=labelled).derive(key)


class Context:
    """``KeySchedule`` of mode base, with HKDF-SHA256 and ChaCha20-Poly1305; its first message."""

    def __init__(self, kem: int, secret: bytes, info: bytes) -> None:
        suite = b"HPKE" + kem.to_bytes(2, "big") + bytes.fromhex("00010003")
        hashes = extract(suite, b"", b"psk_id_hash", b"") + extract(suite, b"", b"info_hash", info)
        base = extract(suite, secret, b"secret", b"")
        self.key = expand(suite, base, b"key", b"\0" + hashes, 32)
        self.nonce = expand(suite, base, b"base_nonce", b"\0" + hashes, 12)

    def seal(self, reply: bytes, aad: bytes = b"") -> bytes:
        return ChaCha20Poly1305(self.key).encrypt(self.nonce, reply, aad)

    def open(self, content: bytes) -> bytes:
        return ChaCha20Poly1305(self.key).decrypt(self.nonce, content, b"")


def test_our_reading_of_rfc_9180_gives_its_own_test_vector() -> None:
    """Appendix A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, mode base, sequence number 0."""
    secret = bytes.fromhex("0bbe78490412b4bbea4812666f7916932b828bba79942424abb65244930d69a7")

    sealed = Context(0x0020, secret, b"Ode on a Grecian Urn").seal(
        b"Beauty is truth, truth beauty", b"Count-0"
    )

    assert sealed.hex() == (
        "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28"
    )


def x_wing(mlkem: bytes, x25519: bytes, enc: bytes, receiver: bytes) -> bytes:
    """The combiner of X-Wing (draft-connolly-cfrg-xwing-kem)."""
    return hashlib.sha3_256(mlkem + x25519 + enc + receiver + b"\\.//^\\").digest()


def test_the_hybrid_format_is_the_one_that_is_written_down() -> None:
    key = KEY
    lattice, receiver = key.public[1:1185], key.public[1185:]
    assert lattice == key._lattice.public_key().public_bytes_raw()

    found = seal(key=key.public)
    assert found[:9] == b"FBSEAL02\2"
    inner, enc = found[9:1097], found[1097:1129]
    first = key._lattice.decapsulate(inner)
    second = key._private.exchange(X25519PublicKey.from_public_bytes(enc))
    context = Context(0x647A, x_wing(first, second, enc, receiver), b"fedboard reply 2\0" + ABOUT)
    assert context.open(found[1129:]) == REPLY

    private = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    enc = private.public_key().public_bytes_raw()
    first, inner = MLKEM768PublicKey.from_public_bytes(lattice).encapsulate()
    second = private.exchange(X25519PublicKey.from_public_bytes(receiver))
    context = Context(0x647A, x_wing(first, second, enc, receiver), b"fedboard reply 2\0" + ABOUT)
    assert key.open(b"FBSEAL02\2" + inner + enc + context.seal(REPLY), about=ABOUT) == REPLY
