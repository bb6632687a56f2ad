"""``fedboard keys log`` and ``fedboard keys witness``: keys whose names stand in what they sign."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

LOG_KEY, LOG_PUBLIC = "board-log.key", "board-log.pub"
WITNESS_KEY, WITNESS_PUBLIC = "witness.key", "witness.pub"


def _out(default: str) -> Callable[[Any], Any]:
    return click.option(
        "--out",
        "folder",
        type=click.Path(path_type=Path),
        default=Path(default),
        show_default=True,
        help="Folder of the files.",
    )


def _name(example: str) -> Callable[[Any], Any]:
    return click.option(
        "--name", required=True, help=f"Its public name, an address without https://, such as {example}."
    )


@click.command(epilog="Example: fedboard keys log --name boards.example.org/films")
@_out("board-log")
@_name("boards.example.org/films")
def log(folder: Path, name: str) -> None:
    """Make a log of boards, of one run: its folder, and the key that signs its state and no board.

    board-log.key stays in the folder, where the log's entries will be; board-log.pub is for witnesses and readers.
    """
    from fedboard.common.boards.log.note_keys import NoteKey
    from fedboard.common.boards.log.notes import Kind

    key = NoteKey.generate(name, Kind.NOTE)
    key.write(folder / LOG_KEY, folder / LOG_PUBLIC)
    click.echo(f"log {key.public}")
    click.echo(
        f"{folder}: for [board] log in fleet.toml, or --log; keep it with the run's ledger. {folder / LOG_PUBLIC}: "
        "for every witness, and for the policy of readers"
    )


@click.command(epilog="Example: fedboard keys witness --name witness.example.net/boards")
@_out("keys")
@_name("witness.example.net/boards")
def witness(folder: Path, name: str) -> None:
    """Make a witness's key pair: witness.key for `fedboard witness`, witness.pub for operators and readers."""
    from fedboard.common.boards.log.note_keys import NoteKey
    from fedboard.common.boards.log.notes import Kind

    key = NoteKey.generate(name, Kind.COSIGNATURE)
    key.write(folder / WITNESS_KEY, folder / WITNESS_PUBLIC)
    click.echo(f"witness NAME {key.public}")
    click.echo(
        f"{folder / WITNESS_KEY}: for fedboard witness --key; the line above, with a NAME, is for policies"
    )
