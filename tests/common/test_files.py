"""Files that users name: regular ones, of a size that can be read."""

import os
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.files import LARGEST, open_file, read_file


def test_a_file_is_read_whole_and_one_that_is_too_large_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"abc")

    assert read_file(path, largest=3) == b"abc"
    with pytest.raises(InputError, match="it has 3 bytes, and at most 2 are read"):
        read_file(path, largest=2)
    os.truncate(path, LARGEST + 1)
    with pytest.raises(InputError, match=f"at most {LARGEST} are read"):
        read_file(path)
    with open_file(path, largest=None) as stream:
        assert stream.read(3) == b"abc"


def test_a_folder_and_a_missing_file_fail_as_everywhere(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none")
