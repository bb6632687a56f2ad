"""What a log may have said: one run, one board for a version, one ledger that only grows."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.entries import BoardEntry, prefix_digests, releases_digest
from fedboard.common.boards.log.history import History, HistoryError
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note, NoteError, bytes_of, text_of
from fedboard.common.boards.log.proofs import LogProof

RELEASES = [{"name": f"round-{number}", "noise": "é"} for number in range(4)]
LOG = NoteKey.generate("boards.example/films", Kind.NOTE)


def certificate(version: int, releases: list[dict[str, str]] = RELEASES) -> dict[str, object]:
    return {"releases": releases[:version], "ledger_head": f"{version}" * 64}


def an_entry(version: int, *, content: bytes = b"signed", **changed: object) -> BoardEntry:
    made = BoardEntry.of(
        content + str(version).encode(),
        run="films",
        version=version,
        board=f"{version}" * 64,
        certificate=certificate(version),
    )
    return replace(made, **changed)


ALL = tuple(an_entry(version) for version in range(4))


def test_an_entry_is_read_as_it_was_written() -> None:
    assert History.parse(History(ALL).text) == History(ALL)
    assert ALL[2].text.splitlines()[-2:] == [
        f"ledger 2 {'2' * 64}",
        f"releases {releases_digest(RELEASES[:2])}",
    ]
    assert prefix_digests(RELEASES) == [releases_digest(RELEASES[:n]) for n in range(5)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text[:-3],
        lambda text: text.replace("version 2", "version 02"),
        lambda text: text.replace("run films", "run fi\nlms", 1),
        lambda text: text.replace("2" * 64, "G" * 64),
        lambda text: text + "x",
        lambda text: "\n" + text,
    ],
)
def test_what_is_no_history_is_refused(damage: Callable[[str], str]) -> None:
    with pytest.raises(NoteError):
        History.parse(damage(History(ALL).text))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (an_entry(2, board="f" * 64), "two boards for version 2"),
        (an_entry(4, run="books", ledger_rows=9), "two runs"),
        (an_entry(4, ledger_rows=2), "shorter"),
        (an_entry(4, ledger_rows=3, ledger_head="e" * 64), "as long as that of version 3, and another"),
        (an_entry(2, ledger_head="e" * 64), "two boards for version 2"),
    ],
)
def test_a_log_that_breaks_a_rule_is_known_by_it(entry: BoardEntry, words: str) -> None:
    with pytest.raises(HistoryError, match=words):
        History((*ALL, entry))


def test_a_manifest_may_be_signed_again() -> None:
    """With a later date, or by the next key; it is the same board."""
    renewed = an_entry(2, content=b"signed again")
    history = History((*ALL, renewed))

    assert history.index_of(renewed.manifest) == 4
    assert history.index_of(ALL[2].manifest) == 2
    assert history.of_version(2) == ALL[2]


def test_a_ledger_that_was_rolled_back_does_not_continue_what_was_logged() -> None:
    """Rounds 2 and 3 were booked again, other than before, in a ledger that is longer now."""
    rewritten = [
        *RELEASES[:1],
        {"name": "round-1", "noise": "less"},
        *RELEASES[2:],
        {"name": "x", "noise": ""},
    ]
    later = certificate(5, rewritten)
    honest = History((*ALL, an_entry(4)))
    rolled = an_entry(5, ledger_rows=5, ledger_head="5" * 64, releases=releases_digest(rewritten))

    honest.require_ledger(4, certificate(4))
    with pytest.raises(HistoryError, match="does not continue that of version 2"):
        History((*honest.entries, rolled)).require_ledger(5, later)
    with pytest.raises(HistoryError, match="another ledger"):
        honest.require_ledger(4, later)
    with pytest.raises(HistoryError, match="another ledger"):
        honest.require_ledger(9, later)


def proof_of(history: History, index: int) -> LogProof:
    size = len(history.entries)
    text = Checkpoint(LOG.public.name, size, history.root(size)).text
    return LogProof.of(history, index, Note(text, (LOG.sign(text),)))


def test_a_proof_is_read_as_it_was_written_and_is_sound() -> None:
    made = proof_of(History(ALL), 2)
    read = LogProof.from_bytes(made.to_bytes())

    assert read == made
    read.require_sound()
    assert made.to_bytes().startswith(b"c2sp.org/tlog-proof@v1\nextra ")


def test_a_proof_whose_history_is_not_that_of_its_checkpoint_is_not_sound() -> None:
    made = proof_of(History(ALL), 2)
    shorter, other = History(ALL[:3]), History((*ALL[:2], an_entry(2, content=b"z"), ALL[3]))
    for wrong in (
        replace(made, history=shorter),
        replace(made, history=other),
        replace(made, index=1),
        replace(made, index=4),
        replace(made, hashes=made.hashes[::-1]),
        replace(made, note=proof_of(shorter, 2).note),
    ):
        with pytest.raises(NoteError):
            wrong.require_sound()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("tlog-proof@v1", "tlog-proof@v2"),
        lambda text: text.replace("index 2", "index 02"),
        lambda text: "\n".join(line for line in text.split("\n") if not line.startswith("extra")),
        lambda text: text.replace("\n\n", "\n", 1),
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("extra ", "extra =", 1),
    ],
)
def test_what_is_no_proof_is_refused(damage: Callable[[str], str]) -> None:
    with pytest.raises(NoteError):
        LogProof.from_bytes(damage(proof_of(History(ALL), 2).to_bytes().decode()).encode())


def test_two_boards_in_one_proof_are_two_boards_however_well_they_are_signed() -> None:
    made = proof_of(History(ALL), 2).to_bytes().decode()
    forged = History(ALL).text + an_entry(2, board="f" * 64).text + "\n"
    lines = [
        f"extra {text_of(forged.encode())}" if line.startswith("extra") else line for line in made.split("\n")
    ]

    assert bytes_of(lines[1].removeprefix("extra ")).decode() == forged
    with pytest.raises(HistoryError, match="two boards"):
        LogProof.from_bytes("\n".join(lines).encode())
