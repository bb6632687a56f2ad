"""Signed notes, checkpoints and cosignatures, held against the examples of their specifications."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.boards.log.checkpoints import Checkpoint, cosigned_at, cosigned_message
from fedboard.common.boards.log.merkle import EMPTY_ROOT
from fedboard.common.boards.log.note_keys import NoteKey, read_verifier
from fedboard.common.boards.log.notes import (
    MAX_NOTE_BYTES,
    Kind,
    Note,
    NoteError,
    VerifierKey,
    text_of,
)
from fedboard.common.errors import InputError

SPEC_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
SPEC_NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
"""From c2sp.org/signed-note."""
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = """If you think cryptography is the answer to your problem,
then you don't know what your problem is.

— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
"""
"""From the documentation of golang.org/x/mod/sumdb/note."""
SPEC_COSIGNED = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo\
+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5n\
No0xUe+mbIUBkBIfZ+qnA==
"""
"""From c2sp.org/tlog-cosignature."""
SPEC_MESSAGE = """cosignature/v1
time 1679315147
example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
"""


@pytest.mark.parametrize(("key", "note"), [(SPEC_KEY, SPEC_NOTE), (GO_PUBLIC, GO_NOTE)])
def test_the_notes_of_the_specifications_verify_and_no_other_text_does(key: str, note: str) -> None:
    known = VerifierKey.parse(key, kind=Kind.NOTE)

    assert Note.from_bytes(note.encode()).signed_by(known)
    assert Note.from_bytes(note.encode()).to_bytes() == note.encode()
    assert str(known) == key
    with pytest.raises(NoteError):
        Note.from_bytes(note.replace("is", "was", 1).encode()).signed_by(known)


def test_a_key_of_go_signs_the_same_bytes_here() -> None:
    key = NoteKey.parse(GO_PRIVATE, kind=Kind.NOTE)
    text = GO_NOTE.partition("\n\n")[0] + "\n"

    assert Note(text, (key.sign(text),)).to_bytes().decode() == GO_NOTE
    assert (key.text, str(key.public)) == (GO_PRIVATE, GO_PUBLIC)


def test_the_cosignature_of_the_specification_carries_its_time() -> None:
    """Its key is nowhere told; its time, its key id and the message are."""
    note = Note.from_bytes(SPEC_COSIGNED.encode())
    line = note.signatures[1]

    assert (line.name, line.id.hex()) == ("witness.example.com/w1", "8d66cf3f")
    assert len(line.content) == 8 + 64
    assert cosigned_message(note.text, int.from_bytes(line.content[:8])) == SPEC_MESSAGE.encode()
    assert Checkpoint.parse(note.text).size == 20852163
    assert Checkpoint.parse(note.text).text == note.text


@pytest.fixture
def witness() -> NoteKey:
    return NoteKey.generate("w.example/1", Kind.COSIGNATURE)


TEXT = Checkpoint("boards.example/films", 3, bytes(range(32))).text


def test_a_cosignature_says_when_and_of_which_checkpoint(witness: NoteKey) -> None:
    note = Note(TEXT, (witness.cosign(TEXT, seconds=1_700_000_000),))

    assert cosigned_at(note, witness.public) == 1_700_000_000
    assert cosigned_at(note, NoteKey.generate("w.example/1", Kind.COSIGNATURE).public) is None
    other = Checkpoint("boards.example/films", 4, bytes(range(32))).text
    with pytest.raises(NoteError):
        cosigned_at(Note(other, note.signatures), witness.public)


@given(place=st.integers(0, 71), bit=st.integers(0, 7))
def test_no_bit_of_a_cosignature_can_be_changed_neither_of_its_time(place: int, bit: int) -> None:
    witness = NoteKey.generate("w", Kind.COSIGNATURE)
    line = witness.cosign(TEXT)
    content = bytearray(line.content)
    content[place] ^= 1 << bit

    with pytest.raises(NoteError):
        cosigned_at(Note(TEXT, (type(line)(line.name, line.id, bytes(content)),)), witness.public)


def test_a_cosignature_without_a_time_is_none(witness: NoteKey) -> None:
    with pytest.raises(NoteError):
        cosigned_at(Note(TEXT, (witness.cosign(TEXT, seconds=0),)), witness.public)


def test_a_logs_key_does_not_pass_for_a_witnesss(witness: NoteKey) -> None:
    """The same 32 bytes sign both: the kind is part of the id, and of what is signed."""
    log = NoteKey.parse(
        NoteKey(VerifierKey("w.example/1", Kind.NOTE, witness.public.raw), witness._key).text, kind=Kind.NOTE
    )
    assert log.public.id != witness.public.id
    assert cosigned_at(Note(TEXT, (log.sign(TEXT),)), witness.public) is None
    with pytest.raises(NoteError, match="witness"):
        VerifierKey.parse(str(log.public), kind=Kind.COSIGNATURE)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text.removesuffix("\n"),
        lambda text: text.replace("— ", "- ", 1),
        lambda text: text.replace("Uw2Q", "Uw2", 1),
        lambda text: text.replace("Uw2QOkn8", "Uw2QOkn8 ", 1),
        lambda text: text.replace("aQM=", "aQN=", 1),  # not the one form of its bytes
        lambda text: text.replace("example", "ex\tample", 1),
        lambda text: text.replace("message", "m\0essage", 1),
        lambda text: "",
        lambda text: "\n\n" + text,
        lambda text: text + "— x\n",
        lambda text: text + text.splitlines(keepends=True)[-1] * 70,
        lambda text: "x" * MAX_NOTE_BYTES + text,
    ],
)
def test_what_is_no_note_is_refused(damage: Callable[[str], str]) -> None:
    known = VerifierKey.parse(SPEC_KEY, kind=Kind.NOTE)
    with pytest.raises(NoteError):
        assert Note.from_bytes(damage(SPEC_NOTE).encode()).signed_by(known)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "x\n1\n",
        "x\n01\nAAAA\n",
        f"\n1\n{'A' * 43}=\n",
        "x\n-1\nAAAA\n",
        "x\n1\nAAAA\n",
        TEXT + "\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        Checkpoint.parse(text)


def test_no_leaves_have_one_root() -> None:
    assert Checkpoint("x", 0, EMPTY_ROOT).is_sound
    assert not Checkpoint("x", 0, bytes(32)).is_sound


@pytest.mark.parametrize(
    "text",
    ["", "a+b", "a+530d903a+AekyeRrm", SPEC_KEY.replace("530d", "530e"), SPEC_KEY.replace("foo", "f o")],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        VerifierKey.parse(text, kind=Kind.NOTE)


def test_a_key_is_never_overwritten_and_its_owners_alone(tmp_path: Path, witness: NoteKey) -> None:
    private, public = tmp_path / "witness.key", tmp_path / "witness.pub"
    witness.write(private, public)

    assert NoteKey.read(private, kind=Kind.COSIGNATURE).public == witness.public
    assert read_verifier(str(public), kind=Kind.COSIGNATURE) == witness.public
    assert read_verifier(str(witness.public), kind=Kind.COSIGNATURE) == witness.public
    with pytest.raises(InputError, match="already"):
        witness.write(private, public)
    with pytest.raises(InputError, match="keys log"):
        NoteKey.read(private, kind=Kind.NOTE)
    private.chmod(0o640)
    with pytest.raises(InputError, match="chmod"):
        NoteKey.read(private, kind=Kind.COSIGNATURE)
    with pytest.raises(InputError, match="spaces"):
        NoteKey.generate("a name", Kind.NOTE)


def test_a_key_of_another_kind_of_signature_is_told_what_it_is() -> None:
    """C2SP recommends ML-DSA-44 for new witnesses: whoever is given such a key is told so."""
    with pytest.raises(NoteError, match=r"a key of type 0x06 is not read here \(0x06 is ML-DSA-44\)"):
        VerifierKey.parse("w.example/1+00000000+" + text_of(b"\x06" + bytes(1312)), kind=Kind.COSIGNATURE)
    with pytest.raises(NoteError, match="not a key of the form"):
        VerifierKey.parse("w.example/1+00000000+", kind=Kind.COSIGNATURE)
