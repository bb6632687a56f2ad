"""How often people played songs or artists: the Echo Nest's taste profile (MSD), and Last.fm 360K.

The counts are read as presence: played or not. They span orders of magnitude and are no ratings on a scale; which
counts stand for a liking is not for a reader to say.

Layouts: millionsongdataset.com/tasteprofile (``user song plays`` by tabs), and the README of lastfm-dataset-360K
(``user-mboxsha1, musicbrainz-artist-id, artist-name, plays`` by tabs, the second empty where it is not known). In
some lines of the published file a date (``sep 20, 2008``) stands for the user: they are read as one more user.
"""

import re
from functools import partial

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, presence_of
from fedboard.simulations.datasets.formats.blocks import Blocks, Rows
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, read_text, text_blocks

_TABS = partial(TextLayout, delimiter="\t", header=False, whole_number_ids=False, quoted=False)
_MSD = _TABS(columns=("user", "song", "plays"), mapping=ColumnMapping(item="song", rating="plays"))
_LASTFM = _TABS(
    columns=("user", "mbid", "artist", "plays"),
    mapping=ColumnMapping(item="artist", rating="plays"),
    item_otherwise="mbid",
)
_MSD_LINE = re.compile(r"[0-9a-f]{40}\tSO[0-9A-Z]{16}\t[0-9]+")
_LASTFM_LINE = re.compile(r"[0-9a-f]{40}\t(?:[0-9a-f-]{36})?\t[^\t]*\t[0-9]+")


def _recognises(looks: Looks, line: re.Pattern[str]) -> bool:
    """By its first line."""
    return line.fullmatch(looks.line) is not None


def _read(file: StoredFile, asked: Asked, layout: TextLayout) -> RawColumns:
    """Who played what.

    Raises:
        InputError: a count is negative, or see ``read_text``.
    """
    return presence_of(read_text(file, layout))


def _blocks(file: StoredFile, asked: Asked, layout: TextLayout) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, layout, rows=Rows.USED)


READERS = tuple(
    Reader(
        name=name,
        what=what,
        given_as=f"the folder, the `.zip`, or `{file_name}`",
        read=partial(_read, layout=layout),
        blocks=partial(_blocks, layout=layout),
        recognises=partial(_recognises, line=line),
        rating_range=(0.0, 1.0),
        presence=True,
        file_name=file_name,
        needs_pyarrow=True,
    )
    for name, what, layout, line, file_name in (
        ("msd", "MSD, the Echo Nest's taste profile", _MSD, _MSD_LINE, "train_triplets.txt"),
        ("lastfm-360k", "Last.fm 360K", _LASTFM, _LASTFM_LINE, "usersha1-artmbid-artname-plays.tsv"),
    )
)
