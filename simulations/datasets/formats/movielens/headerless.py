"""Files without a header: a line ``user item rating time`` for each rating, whole numbers but the rating."""

from dataclasses import dataclass

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns
from fedboard.simulations.datasets.formats.blocks import Blocks
from fedboard.simulations.datasets.formats.reader import Asked
from fedboard.simulations.datasets.formats.text import TextLayout, read_text, text_blocks

COLUMNS = ("user", "item", "rating", "time")


@dataclass(frozen=True, slots=True)
class Headerless:
    """How such a file is read."""

    delimiter: str
    """One character, or ``::``."""

    def read(self, file: StoredFile, asked: Asked) -> RawColumns:
        """Read the file, or a part of it such as ``u1.base``.

        Raises:
            InputError: see ``read_text``.
        """
        return read_text(file, self._layout(asked))

    def blocks(self, file: StoredFile, asked: Asked) -> Blocks:
        """The same, a block at a time."""
        return text_blocks(file, self._layout(asked))

    def _layout(self, asked: Asked) -> TextLayout:
        layout = TextLayout(
            delimiter=self.delimiter,
            columns=COLUMNS,
            mapping=ColumnMapping(),
            header=False,
            whole_number_ids=True,
            quoted=False,
        )
        return layout.timed(asked.times, "time")
