"""A device that has pinned a root answers whom the newest root names, and nobody who was named before."""

import shutil
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedboard.client.boards.sources import FolderSource
from fedboard.client.participation.config import load_device
from fedboard.client.participation.followed_server import (
    AT_ONCE_SECONDS,
    LOOK_SECONDS,
    FollowedServer,
    server_of,
)
from fedboard.client.participation.opening import asker_of
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.roots import Role, Root
from fedboard.common.boards.validity import DAY_SECONDS
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import PinnedServer, QuestionKey
from fedboard.server.operating.drafting import drafted, signed_by

HOLDER = Ed25519PrivateKey.generate()
FIRST, SECOND, THIRD = QuestionKey(), QuestionKey(), QuestionKey()
QUESTION = b"a question"


def root(version: int, key: QuestionKey | None, *, days: float = 30) -> bytes:
    holder = Role((HOLDER.public_key().public_bytes_raw(),), 1)
    questions = None if key is None else Role((bytes.fromhex(key.public.hex),), 1)
    draft = drafted({"root": holder, "boards": holder, "questions": questions}, version=version, days=days)
    return signed_by(draft, [HOLDER], before=None)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    (tmp_path / "mirror" / "roots").mkdir(parents=True)
    return tmp_path / "mirror"


def publish(mirror: Path, version: int, key: QuestionKey | None) -> None:
    (mirror / "roots" / f"{version}.root.json").write_bytes(root(version, key))


class Device:
    """With a clock that is moved by hand, and a count of its looks."""

    def __init__(self, mirror: Path | None, kept: Path) -> None:
        self.now, self.looks = 0.0, 0

        def source() -> FolderSource:
            assert mirror is not None
            self.looks += 1
            return FolderSource(mirror)

        pinned = PinnedKey(Root.from_bytes(PINNED))
        self.server = FollowedServer(
            pinned=pinned, kept=kept, source=source if mirror else None, monotonic=lambda: self.now
        )

    def answers(self, key: QuestionKey, *, late: float = 0.0) -> bool:
        signed = key.sign(QUESTION, seconds=900, clock=lambda: time.time() + late)
        try:
            return bytes(self.server.open(signed, clock=lambda: time.time() + late)) == QUESTION
        except RefusedError as refused:
            return {Refusal.BAD_SIGNATURE: False}[refused.code]


PINNED = root(1, FIRST)


def test_a_key_that_was_replaced_is_refused_and_the_new_one_answered(tmp_path: Path, mirror: Path) -> None:
    device = Device(mirror, tmp_path / "kept")
    assert device.answers(FIRST)
    assert not device.answers(SECOND)
    device.now += AT_ONCE_SECONDS + 1

    publish(mirror, 2, SECOND)

    assert device.answers(SECOND), "an unknown signature makes it look"
    assert not device.answers(FIRST)


def test_the_stolen_key_is_refused_as_soon_as_the_device_looks_again(tmp_path: Path, mirror: Path) -> None:
    device = Device(mirror, tmp_path / "kept")
    assert device.answers(FIRST)
    publish(mirror, 2, SECOND)

    device.now += LOOK_SECONDS - 1
    assert device.answers(FIRST), "not every question is a look"
    device.now += 2
    assert not device.answers(FIRST)


def test_what_was_learnt_is_remembered_where_the_source_is_gone(tmp_path: Path, mirror: Path) -> None:
    publish(mirror, 2, SECOND)
    publish(mirror, 3, THIRD)
    assert Device(mirror, tmp_path / "kept").answers(THIRD)
    shutil.rmtree(mirror)

    for source in (mirror, None):
        again = Device(source, tmp_path / "kept")
        assert again.answers(THIRD)
        assert not again.answers(FIRST)
        assert not again.answers(SECOND)


def test_whoever_asks_without_a_key_cannot_make_it_look_all_the_time(tmp_path: Path, mirror: Path) -> None:
    device = Device(mirror, tmp_path / "kept")

    for _ in range(50):
        assert not device.answers(THIRD)

    assert device.looks == 1


def test_under_a_root_that_has_expired_or_names_nobody_nothing_is_answered(
    tmp_path: Path, mirror: Path
) -> None:
    device = Device(None, tmp_path / "kept")
    assert device.answers(FIRST, late=29 * DAY_SECONDS)
    assert not device.answers(FIRST, late=31 * DAY_SECONDS)

    publish(mirror, 2, None)
    nobody = Device(mirror, tmp_path / "others")
    assert not any(nobody.answers(key) for key in (FIRST, SECOND))


def test_a_root_that_asks_for_two_signatures_on_a_question_gets_no_answer(tmp_path: Path) -> None:
    """A question has one."""
    holder = Role((HOLDER.public_key().public_bytes_raw(),), 1)
    two = Role(tuple(bytes.fromhex(key.public.hex) for key in (FIRST, SECOND)), 2)
    draft = drafted({"root": holder, "boards": holder, "questions": two}, version=1, days=30)
    pinned = PinnedKey(Root.from_bytes(signed_by(draft, [HOLDER], before=None)))

    with pytest.raises(RefusedError):
        FollowedServer(pinned=pinned, kept=tmp_path).open(FIRST.sign(QUESTION, seconds=900))


def test_other_reasons_to_refuse_keep_their_code(tmp_path: Path, mirror: Path) -> None:
    device = Device(mirror, tmp_path / "kept")
    old = FIRST.sign(QUESTION, seconds=1, clock=lambda: time.time() - 5000)
    for content, code in ((b"short", Refusal.UNSIGNED), (old, Refusal.EXPIRED)):
        with pytest.raises(RefusedError) as refused:
            device.server.open(content)
        assert refused.value.code is code


def test_the_name_of_what_is_pinned_stays_when_keys_are_replaced(tmp_path: Path, mirror: Path) -> None:
    """By it answers are kept: a rotation loses no round."""
    device = Device(mirror, tmp_path / "kept")
    before = device.server.id
    publish(mirror, 2, SECOND)

    assert device.answers(SECOND)
    assert device.server.id == before


def test_a_device_pins_a_key_or_a_root(tmp_path: Path, mirror: Path) -> None:
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(FIRST.public.hex))
    (tmp_path / "key.pub").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "1.root.json").write_bytes(PINNED)
    (tmp_path / "none.root.json").write_bytes(root(1, None))
    (tmp_path / "torn.root.json").write_bytes(PINNED[:-40])
    publish(mirror, 2, SECOND)

    assert isinstance(server_of(tmp_path / "key.pub", kept=tmp_path / "kept"), PinnedServer)
    for name, told in (("none", "names no key that signs questions"), ("torn", "no root document")):
        with pytest.raises(InputError, match=told):
            server_of(tmp_path / f"{name}.root.json", kept=tmp_path / "kept")
    (tmp_path / "device.toml").write_text(
        '[ratings]\nstore = "mine.sqlite"\n[policy]\nepsilon = 8.0\ndelta = 1e-5\n'
        '[server]\naddress = "127.0.0.1:1"\nauthority = "ca.pem"\nkey = "device.key"\n'
        f'question_key = "1.root.json"\n[boards]\nsource = "{mirror}"\n'
    )
    asker = asker_of(load_device(tmp_path / "device.toml"))
    assert bytes(asker.content(SECOND.sign(QUESTION, seconds=900))) == QUESTION
    with pytest.raises(RefusedError):
        asker.content(FIRST.sign(QUESTION, seconds=900))
