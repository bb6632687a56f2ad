"""Root documents as anybody may write them: read, or refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.roots import BOARDS, QUESTIONS, Role, Root, RootError, root_document
from fedboard.common.boards.validity import is_utc_text
from fedboard.server.operating.drafting import drafted, signed_by
from tests.common.boards.boards import signed_by_hand

A, B, C = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def document(version: int = 1, *, questions: bool = True) -> bytes:
    """Two of A and B, C signs boards and questions."""
    role = Role((raw(C),), 1)
    roles = {"root": Role((raw(A), raw(B)), 2), "boards": role, "questions": role if questions else None}
    return signed_by(drafted(roles, version=version, days=30), [A, B], before=None)


def test_what_is_signed_is_the_text_behind_the_name_of_the_format() -> None:
    content = document()
    plain, root = json.loads(content), Root.from_bytes(content)

    message = b"fedboard-root-1\0" + plain["content"].encode()
    for key in (A, B):
        assert has_signed(raw(key), bytes.fromhex(plain["signatures"][raw(key).hex()]), message)
    said = json.loads(plain["content"])
    assert said["roles"]["boards"] == {"keys": [raw(C).hex()], "threshold": 1}
    assert (said["version"], said["expires"]) == (1, root.expires)
    assert root.roles[BOARDS] == root.roles[QUESTIONS] == Role((raw(C),), 1)


def test_a_key_that_signs_twice_counts_once() -> None:
    role, (of_a, of_b) = Role((raw(A), raw(B)), 2), (key.sign(b"it") for key in (A, B))

    assert role.has_signed((of_b, of_a, of_a), b"it")
    assert not role.has_signed((of_a, of_a), b"it")


def _signed(change: Callable[[dict[str, Any]], Any]) -> Callable[[], bytes]:
    """With something else said, and signed by both again."""

    def made() -> bytes:
        said = json.loads(json.loads(document())["content"])
        change(said)
        text = json.dumps(said)
        message = b"fedboard-root-1\0" + text.encode()
        return root_document(text, {raw(key): key.sign(message) for key in (A, B)})

    return made


def _unsigned(change: Callable[[dict[str, Any]], Any]) -> Callable[[], bytes]:
    def made() -> bytes:
        plain = json.loads(document())
        change(plain)
        return json.dumps(plain).encode()

    return made


def _without_the_name_of_the_format() -> bytes:
    text = json.loads(document())["content"]
    return root_document(text, {raw(key): key.sign(text.encode()) for key in (A, B)})


OF_A = raw(A).hex()
NO_ROOTS = (
    lambda: b"",
    lambda: b"[]",
    lambda: b"{" * 70_000,
    lambda: b'{"content": "{}", "signatures": {}}',
    lambda: b" " * 70_000 + document(),
    _without_the_name_of_the_format,
    _unsigned(lambda plain: plain["signatures"].update({OF_A: "zz"})),
    _unsigned(lambda plain: plain["signatures"].update({"00": "00"})),
    _unsigned(lambda plain: plain["signatures"].pop(OF_A)),
    _unsigned(lambda plain: plain["signatures"].update({OF_A: plain["signatures"][raw(B).hex()]})),
    _unsigned(lambda plain: plain.update(content=plain["content"].replace('"version":1', '"version":2'))),
    _unsigned(lambda plain: plain.update(more=1)),
    _signed(lambda said: said.update(format="fedboard-root-2")),
    _signed(lambda said: said.pop("format")),
    _signed(lambda said: said.update(version=0)),
    _signed(lambda said: said.update(version=True)),
    _signed(lambda said: said.update(version=1 << 31)),
    _signed(lambda said: said.update(expires="2030-02-30T00:00:00Z")),
    _signed(lambda said: said.pop("expires")),
    _signed(lambda said: said.update(more=1)),
    _signed(lambda said: said["roles"].pop("boards")),
    _signed(lambda said: said["roles"].pop("root")),
    _signed(lambda said: said["roles"]["boards"].update(threshold=2)),
    _signed(lambda said: said["roles"]["boards"].update(threshold=0)),
    _signed(lambda said: said["roles"]["boards"].update(keys=[])),
    _signed(lambda said: said["roles"]["boards"].update(keys=["0" * 63])),
    _signed(lambda said: said["roles"]["boards"].update(keys=[OF_A.upper()])),
    _signed(lambda said: said["roles"]["root"]["keys"].append(OF_A)),
    _signed(lambda said: said["roles"].update(other=said["roles"]["root"])),
)


@pytest.mark.parametrize("made", NO_ROOTS)
def test_what_is_no_root_is_refused(made: Callable[[], bytes]) -> None:
    with pytest.raises(RootError):
        Root.from_bytes(made())


def test_the_same_documents_unchanged_are_taken() -> None:
    """The control of the test above."""
    assert Root.from_bytes(_signed(lambda signed: None)()).version == 1
    assert Root.from_bytes(_unsigned(lambda plain: None)()).version == 1
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
