"""Signed manifests: what the pinned key did not sign, bit for bit, is nothing."""

import json

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.board_signature import PinnedKey, SignedManifest, message_to_sign
from fedboard.common.boards.manifest import BoardFile, Manifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.protection import Protection

DIGEST = "ab" * 32


A_FILE = BoardFile(size=100, sha256=DIGEST, board_size=100, board_sha256=DIGEST)


def a_manifest(**changes):
    fields = {
        "run": "summer",
        "run_id": "ab" * 16,
        "releases": 3,
        "ledger_head": DIGEST,
        "previous_manifest": DIGEST,
        "version": 3,
        "board_digest": DIGEST,
        "previous_digest": DIGEST,
        "certificate_digest": None,
        "protection": Protection.PRIVATE,
        "published": "2026-01-01T00:00:00Z",
        "signed": "2026-01-02T00:00:00Z",
        "expires": "2026-02-01T00:00:00Z",
        "key_id": "0" * 16,
        "file": A_FILE,
    }
    return Manifest(**(fields | changes))


@pytest.fixture
def private():
    return Ed25519PrivateKey.generate()


def signed(private, content: bytes):
    return SignedManifest(
        content=content.decode(), signatures=(private.sign(message_to_sign(content)).hex(),)
    )


def code_of(action) -> FeedCode:
    with pytest.raises(FeedRefusedError) as refused:
        action()
    return refused.value.code


def test_what_was_signed_is_what_is_read(private):
    manifest = a_manifest()

    assert PinnedKey(private.public_key()).open(signed(private, manifest.to_bytes())) == manifest


def test_a_signature_of_another_key_is_none(private):
    pinned = PinnedKey(Ed25519PrivateKey.generate().public_key())

    assert code_of(lambda: pinned.open(signed(private, a_manifest().to_bytes()))) is FeedCode.BAD_SIGNATURE


def test_every_single_bit_of_content_and_signature_is_covered(private):
    pinned, right = PinnedKey(private.public_key()), signed(private, a_manifest().to_bytes())
    for position in range(0, len(right.content), 7):
        changed = bytearray(right.content.encode())
        changed[position] ^= 1
        wrong = SignedManifest(content=changed.decode("latin-1"), signatures=right.signatures)
        assert code_of(lambda wrong=wrong: pinned.open(wrong)) is FeedCode.BAD_SIGNATURE
    (whole,) = right.signatures
    for signature in (
        "",
        "zz",
        whole[:-2],
        whole[:-1] + ("0" if whole[-1] != "0" else "1"),
    ):
        wrong = SignedManifest(content=right.content, signatures=(signature,))
        assert code_of(lambda wrong=wrong: pinned.open(wrong)) is FeedCode.BAD_SIGNATURE


def test_a_signature_that_the_key_made_for_something_else_is_none(private):
    content = a_manifest().to_bytes()
    elsewhere = SignedManifest(content=content.decode(), signatures=(private.sign(content).hex(),))

    assert code_of(lambda: PinnedKey(private.public_key()).open(elsewhere)) is FeedCode.BAD_SIGNATURE


@pytest.mark.parametrize(
    "change",
    [
        {"format": "fedboard-manifest-2"},
        {"format": "fedboard-manifest-3"},
        {"run": ""},
        {"run": "x" * 257},
        {"run_id": "ab" * 15},
        {"run_id": "AB" * 16},
        {"releases": -1},
        {"releases": None},
        {"ledger_head": "none"},
        {"previous_manifest": ""},
        {"expires": None},
        {"expires": "2026-02-30T00:00:00Z"},
        {"expires": "2026-02-01T00:00:00+00:00"},
        {"signed": None},
        {"renewal": -1},
        {"protection": "unstated"},
        {"protection": "perfect"},
        {"version": -1},
        {"version": "3"},
        {"board_digest": "../../etc/passwd"},
        {"board_digest": DIGEST.upper()},
        {"previous_digest": ""},
        {"surprise": 1},
        {"file": None},
        {"file": msgspec.to_builtins(A_FILE) | {"sha256": "../" + DIGEST[3:]}},
        {"file": msgspec.to_builtins(A_FILE) | {"size": 0}},
        {"file": msgspec.to_builtins(A_FILE) | {"encoding": "pickle"}},
    ],
)
def test_a_signed_manifest_that_is_no_manifest_is_refused_too(private, change):
    content = json.dumps(msgspec.to_builtins(a_manifest()) | change).encode()

    assert (
        code_of(lambda: PinnedKey(private.public_key()).open(signed(private, content))) is FeedCode.MALFORMED
    )


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[[[", b"\xff\xfe", b"[" * 100_000, b'{"content": 1, "signatures": 2}']
)
def test_what_is_no_signed_manifest_is_refused(content):
    assert code_of(lambda: SignedManifest.from_bytes(content)) is FeedCode.MALFORMED


def test_an_endless_manifest_is_not_read(private):
    content = json.dumps({"content": "x" * (1 << 20), "signatures": []}).encode()

    assert code_of(lambda: SignedManifest.from_bytes(content)) is FeedCode.TOO_LARGE


@pytest.mark.parametrize("name", ["fedboard-manifest-2", "fedboard-manifest-4", "fedboard-manifest-6"])
def test_a_manifest_of_another_format_is_refused(private, name):
    """As whoever writes it would sign it, and with the domain or the bytes of this one."""
    pinned, ours = PinnedKey(private.public_key()), a_manifest().to_bytes()
    theirs = json.dumps(json.loads(ours) | {"format": name}).encode()

    for content in (theirs, ours):
        signature = private.sign(name.encode() + b"\0" + content).hex()
        other = SignedManifest(content=content.decode(), signatures=(signature,))
        assert code_of(lambda other=other: pinned.open(other)) is FeedCode.BAD_SIGNATURE
    assert code_of(lambda: pinned.open(signed(private, theirs))) is FeedCode.MALFORMED
    assert "of another format" in str(FeedRefusedError(FeedCode.BAD_SIGNATURE))
