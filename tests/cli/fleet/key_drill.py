"""A run whose board key is stolen twice, from the command line: three root holders, two of whom must sign."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.commands import done
from tests.common.boards.boards import another, chain, write_boards, write_ledger


@dataclass(frozen=True)
class Drill:
    """Copies of the mirror as it was with each root, and what a thief of the first board key made of it."""

    folder: Path

    @property
    def pinned(self) -> Path:
        """What every device was given on the first day."""
        return self.folder / "roots" / "1.root.json"

    def mirror(self, stage: str) -> Path:
        return self.folder / f"mirror-{stage}"

    def key(self, name: str, kind: str = "key") -> Path:
        return self.folder / name / f"boards.{kind}"

    def holder(self, name: str, kind: str = "key") -> Path:
        return self.folder / "holders" / f"{name}.{kind}"


def drilled(folder: Path) -> Drill:
    """Keys, three roots, three mirrors, and the theft."""
    found, boards = Drill(folder), chain(4)
    for name in ("alice", "bob", "carol", "dora"):
        done("keys", "new", "holder", "--name", name, "--out", folder / "holders")
    for name in ("first", "second", "third"):
        done("keys", "new", "boards", "--out", folder / name)

    holders = [part for name in ("alice", "bob", "carol") for part in ("--holder", found.holder(name, "pub"))]
    done("keys", "rotate", folder / "roots", *holders, "--threshold", 2, *_boards(found, "first"))
    done("keys", "sign", found.pinned, "--key", found.holder("alice"), "--key", found.holder("bob"))
    _published(found, boards[:2], "first")
    _stolen(found, boards)

    signers = ("--sign", found.holder("alice"), "--sign", found.holder("carol"))
    done("keys", "rotate", folder / "roots", *_boards(found, "second"), *signers)
    _published(found, boards[:3], "second")

    holders = [part for name in ("bob", "carol", "dora") for part in ("--holder", found.holder(name, "pub"))]
    done(
        "keys", "rotate", folder / "roots", *holders, *_boards(found, "third"), "--sign", found.holder("bob")
    )
    waiting = done("keys", "show", folder / "roots")
    assert "1 of 2 holders of version 2 have signed; 1 of 2 holders of version 3 have signed" in waiting
    done("keys", "sign", folder / "roots" / "3.root.json", "--key", found.holder("carol"))
    _published(found, boards, "third")
    return found


def _boards(drill: Drill, name: str) -> tuple[object, ...]:
    return ("--board-key", drill.key(name, "pub"))


def _published(drill: Drill, boards: list, name: str) -> None:
    run, mirror = drill.folder / "summer", drill.folder / "mirror"
    write_boards(run / "boards", boards)
    if not (run / "ledger.sqlite").exists():
        write_ledger(run, chain(4)[-1])
    options = ("--key", drill.key(name), "--roots", drill.folder / "roots")
    done("board", "export", run, "--to", mirror, *options)
    shutil.copytree(mirror, drill.mirror(name))


def _stolen(drill: Drill, boards: list) -> None:
    """With the first key, the thief continues the first mirror in his own way."""
    mirror, run = drill.mirror("theft"), drill.folder / "theft" / "summer"
    shutil.copytree(drill.mirror("first"), mirror)
    write_boards(run / "boards", [*boards[:2], another(boards[2])])
    shutil.copy(drill.folder / "summer" / "ledger.sqlite", run / "ledger.sqlite")
    done("board", "export", run, "--to", mirror, "--key", drill.key("first"))


def stolen_mirror(drill: Drill, mirror: Path) -> Path:
    """The thief's mirror, where he can keep the next root from nobody."""
    shutil.copytree(drill.mirror("theft"), mirror)
    shutil.copy(drill.folder / "roots" / "2.root.json", mirror / "roots")
    return mirror
