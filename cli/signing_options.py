"""The options of commands that make keys and sign boards: where, with which keys, by which root, for how long."""

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)

KEYS_FOLDER = click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("keys"),
    show_default=True,
    help="Folder of the files.",
)
SIGNING_KEYS = click.option(
    "--key",
    "keys",
    type=_PATH,
    required=True,
    multiple=True,
    help="The private signing key (boards.key); several where the root asks for them.",
)
ROOTS = click.option(
    "--roots",
    metavar="FOLDER",
    type=_PATH,
    help="Root documents that say which keys sign (see keys rotate).  [default: those of MIRROR]",
)
DAYS = click.option(
    "--days",
    type=click.FloatRange(min=0.01, max=3660),
    default=30.0,  # server.publishing.mirror.USUAL_DAYS
    show_default=True,
    help="How long what is signed is good; renewed when half of that is over.",
)
