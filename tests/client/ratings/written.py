"""Files of examples, as people would have them."""

import csv
from itertools import pairwise
from pathlib import Path

from fedboard.client.ratings.examples_file import LABEL, USER, ExamplesTable


def write_examples(path: Path, table: ExamplesTable) -> None:
    """Write a file that ``read_examples`` reads, to the last bit.

    Args:
        path: a new file.
        table: private.
    """
    bounds = list(pairwise(table.examples.indptr.tolist()))
    with path.open("x", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*([] if table.users is None else [USER]), LABEL, *table.features])
        for number, (start, stop) in enumerate(bounds):
            who = [] if table.users is None else [table.users[number]]
            for place in range(start, stop):
                numbers = [table.examples.labels[place], *table.examples.features[place]]
                writer.writerow([*who, *(repr(float(value)) for value in numbers)])
