"""Root documents as anybody may write them: read as TUF's own library reads them, or refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.formats import encode_canonical
from tuf.api.metadata import Metadata
from tuf.api.metadata import Root as TufRoot

from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.keys.roots import (
    BOARDS,
    QUESTIONS,
    ROOT,
    Role,
    Root,
    RootError,
    canonical_json,
    tuf_key_id,
)
from fedboard.common.keys.validity import is_utc_text
from fedboard.server.operating.drafting import Terms, drafted, signed_by
from tests.common.boards.boards import signed_by_hand

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)
A, B, C = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def document(version: int = 1, *, questions: bool = True) -> bytes:
    """Two of A and B, C signs boards and questions."""
    role = Role((raw(C),), 1)
    terms = Terms(holders=Role((raw(A), raw(B)), 2), boards=role, questions=role if questions else None)
    return signed_by(drafted(terms, version=version, days=30), [A, B], before=None)


@given(_VALUES)
@settings(max_examples=100, deadline=None)
def test_canonical_json_is_that_of_the_library_of_tuf(value: Any) -> None:
    assert canonical_json(value).decode() == encode_canonical(value)


@pytest.mark.parametrize("value", [1.5, {"a": float("nan")}, {1: "a"}, b"x", "\ud800"])
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"canonical JSON has no|surrogates"):
        canonical_json(value)


def test_the_library_of_tuf_reads_the_same_root_and_counts_the_same_signatures() -> None:
    content = document()
    theirs: Metadata[TufRoot] = Metadata.from_bytes(content)
    ours = Root.from_bytes(content)

    theirs.verify_delegate(ROOT, theirs)
    assert theirs.signed.get_delegated_role(BOARDS).keyids == [tuf_key_id(raw(C))]
    assert theirs.signed.expires.strftime("%Y-%m-%dT%H:%M:%SZ") == ours.expires
    assert ours.roles[BOARDS] == ours.roles[QUESTIONS] == Role((raw(C),), 1)


def test_a_key_that_signs_twice_counts_once() -> None:
    role, (of_a, of_b) = Role((raw(A), raw(B)), 2), (key.sign(b"it") for key in (A, B))

    assert role.has_signed((of_b, of_a, of_a), b"it")
    assert not role.has_signed((of_a, of_a), b"it")


def test_what_the_library_of_tuf_writes_and_signs_is_read() -> None:
    theirs: Metadata[TufRoot] = Metadata.from_bytes(document())
    theirs.signed.unrecognized_fields["x-somebody"] = {"note": 'é " \\'}
    from securesystemslib.signer import CryptoSigner

    theirs.signatures.clear()
    for key in (A, B):
        theirs.sign(CryptoSigner(key), append=True)

    assert Root.from_bytes(theirs.to_bytes()).roles[ROOT].threshold == 2


def _signed(change: Callable[[dict[str, Any]], Any]) -> Callable[[], bytes]:
    """With something else said, and signed by both again."""

    def made() -> bytes:
        plain = json.loads(document())
        change(plain["signed"])
        plain["signatures"] = []
        content = json.dumps(plain).encode()
        message = canonical_json(plain["signed"])
        plain["signatures"] = [
            {"keyid": tuf_key_id(raw(key)), "sig": key.sign(message).hex()} for key in (A, B)
        ]
        assert content
        return json.dumps(plain).encode()

    return made


def _unsigned(change: Callable[[dict[str, Any]], Any]) -> Callable[[], bytes]:
    def made() -> bytes:
        plain = json.loads(document())
        change(plain)
        return json.dumps(plain).encode()

    return made


def _key_id(signed: dict[str, Any]) -> None:
    name, key = signed["keys"].popitem()
    signed["keys"]["0" * 64] = key
    for role in signed["roles"].values():
        role["keyids"] = ["0" * 64 if one == name else one for one in role["keyids"]]


NO_ROOTS = (
    lambda: b"",
    lambda: b"[]",
    lambda: b"{" * 70_000,
    lambda: b'{"signed": {}}',
    lambda: b" " * 70_000 + document(),
    _unsigned(lambda plain: plain["signatures"].append(plain["signatures"][0])),
    _unsigned(lambda plain: plain["signatures"][0].update(sig="zz")),
    _unsigned(lambda plain: plain["signatures"].pop()),
    _unsigned(lambda plain: plain["signed"].update(version=2)),
    _signed(lambda signed: signed.update(_type="targets")),
    _signed(lambda signed: signed.update(spec_version="2.0.0")),
    _signed(lambda signed: signed.update(version=0)),
    _signed(lambda signed: signed.update(version=True)),
    _signed(lambda signed: signed.update(expires="2030-02-30T00:00:00Z")),
    _signed(lambda signed: signed.pop("expires")),
    _signed(lambda signed: signed["roles"].pop("snapshot")),
    _signed(lambda signed: signed["roles"]["targets"].update(threshold=2)),
    _signed(lambda signed: signed["roles"]["targets"].update(threshold=0)),
    _signed(lambda signed: signed["roles"]["targets"].update(keyids=[])),
    _signed(lambda signed: signed["roles"]["targets"].update(keyids=["0" * 64])),
    _signed(lambda signed: signed["roles"]["root"]["keyids"].append(signed["roles"]["root"]["keyids"][0])),
    _signed(lambda signed: signed["x-fedboard-roles"].update(other=signed["roles"]["root"])),
    _signed(_key_id),
)


@pytest.mark.parametrize("made", NO_ROOTS)
def test_what_is_no_root_is_refused(made: Callable[[], bytes]) -> None:
    with pytest.raises(RootError):
        Root.from_bytes(made())


def test_the_same_documents_unchanged_are_taken() -> None:
    """The control of the test above."""
    assert Root.from_bytes(_signed(lambda signed: None)()).version == 1
    assert Root.from_bytes(_unsigned(lambda plain: plain["signatures"].reverse())()).version == 1
    assert QUESTIONS not in Root.from_bytes(document(questions=False)).roles


def test_only_the_next_root_follows() -> None:
    """Older, the same or skipping one: though all keys have signed them, and they hold the same keys."""
    second = Root.from_bytes(document(2))
    assert second.successor(document(3)).version == 3
    for version in (1, 2, 4, 5):
        with pytest.raises(RootError, match=f"version {version} of the root does not follow version 2"):
            second.successor(document(version))


def test_under_a_root_nothing_is_taken_that_never_expires() -> None:
    """Whoever has one, genuine as it is, could else show it for ever."""

    class Key:
        _key = C

    old = signed_by_hand(b'{"format":"fedboard-manifest-2"}', key=Key(), domain=b"fedboard-manifest-2\0")
    with pytest.raises(FeedRefusedError) as refused:
        PinnedKey(Root.from_bytes(document())).open(old)
    assert refused.value.code is FeedCode.BAD_SIGNATURE


@pytest.mark.parametrize(
    "text",
    ["", "2026-1-1T00:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01 00:00:00Z", "0000-01-01T00:00:00Z", "x"],
)
def test_a_time_has_one_form(text: str) -> None:
    assert not is_utc_text(text)
