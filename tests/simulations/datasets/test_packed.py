"""Files packed by gzip: read as what is inside, in every text format, and told apart from damaged ones."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.server.catalogue import listing
from fedboard.simulations.datasets import load_ratings
from fedboard.simulations.datasets.readers import find_source

TEXT = ("movielens-100k", "movielens-1m", "movielens-10m", "movielens-20m", "csv", "tsv")


def pack(place: Path) -> None:
    for file in [place] if place.is_file() else list(place.iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()


@pytest.mark.parametrize("name", TEXT)
def test_packed_files_are_read_as_what_is_inside(write_ratings: Callable[[str], Path], name: str) -> None:
    place = write_ratings(name)
    plain = load_ratings(place, rating_range=(1, 5))
    pack(place)
    packed = place if place.is_dir() else place.with_name(f"{place.name}.gz")

    found = load_ratings(packed, rating_range=(1, 5))

    assert (
        find_source(packed, None, mapped=False).reader.name
        == find_source(packed, name, mapped=False).reader.name
    )
    assert (found.name, found.titles) == (plain.name, plain.titles)
    for column in ("users", "items", "values", "user_ids", "item_ids"):
        assert getattr(found, column).tolist() == getattr(plain, column).tolist()


@pytest.mark.parametrize("lines", [3, 400_000])
@pytest.mark.parametrize("damage", ["cut short", "no gzip at all", "a bit turned"])
def test_a_damaged_file_is_told_in_a_sentence(tmp_path: Path, lines: int, damage: str) -> None:
    content = gzip.compress("".join(f"{n}\t{n % 7}\t3\t0\n" for n in range(lines)).encode(), 1)
    middle = len(content) // 2
    turned = content[:middle] + bytes([content[middle] ^ 64]) + content[middle + 1 :]
    wrong = {"cut short": content[:-9], "no gzip at all": b"1\t2\t3\t0\n" * 5, "a bit turned": turned}
    (tmp_path / "u.data.gz").write_bytes(wrong[damage])

    with pytest.raises(InputError) as told:
        load_ratings(tmp_path / "u.data.gz", format="movielens-100k")

    assert "\n" not in str(told.value)
    assert "u.data.gz is damaged or was cut short" in str(told.value) or damage == "a bit turned"


def test_a_list_of_items_that_unpacks_to_no_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST_BYTES", 1 << 20)
    (tmp_path / "r.csv").write_text("user,item,rating\n1,2,3\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"item,title\n" + b"2," + b" " * (4 << 20)))

    with pytest.raises(InputError, match=r"t\.csv\.gz is larger than 1 MiB unpacked"):
        load_ratings(tmp_path / "r.csv", rating_range=(1, 5), titles=tmp_path / "t.csv.gz")
