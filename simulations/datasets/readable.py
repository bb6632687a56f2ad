"""What pyarrow finds wrong with a Parquet file, in a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile


@contextmanager
def readable(file: StoredFile) -> Iterator[None]:
    """Tell what pyarrow finds wrong with a Parquet file in a sentence.

    Raises:
        InputError: it is none, it is damaged, or a text in it is not UTF-8.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file.label} is not a readable Parquet file ({reason}); write it again."
        ) from error
