"""The Netflix Prize as it was published, in a few lines: one file for each film, and put together."""

import re
import zipfile
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.datasets import Ratings, features_beside, load_ratings
from fedboard.simulations.datasets.formats import netflix

FILMS = {1: "7,5,2005-09-06\n8,3,2005-05-13\n", 30: "7,4,2005-10-19\n", 4: "9,1,2004-01-01\n8,2,2004-01-02\n"}
CONTENTS = {(7, "1"): 5, (8, "1"): 3, (7, "30"): 4, (9, "4"): 1, (8, "4"): 2}
TITLES = '1,2003,Dinosaur Planet\n4,1994,"Weird Al", Live, 1\n30,NULL,Amélie\n5,1996,Never Rated\n'


def contents(ratings: Ratings) -> dict[tuple[int, str], float]:
    rows = zip(ratings.users, ratings.items, ratings.values, strict=True)
    return {(int(ratings.user_ids[u]), str(ratings.item_ids[i])): float(value) for u, i, value in rows}


def published(root: Path) -> Path:
    """As in the archive of the prize: the films in a folder, their titles above it."""
    folder = root / "netflix" / "training_set"
    folder.mkdir(parents=True)
    for item, lines in FILMS.items():
        (folder / f"mv_{item:07d}.txt").write_text(f"{item}:\n{lines}")
    (folder.parent / "movie_titles.txt").write_bytes(TITLES.encode("latin-1"))
    return folder


def put_together(root: Path, end: str = "\n") -> Path:
    """As on Kaggle: several films in a file, and their titles beside them."""
    folder = root / "kaggle"
    folder.mkdir()
    films = [f"{item}:\n{lines}".replace("\n", end) for item, lines in FILMS.items()]
    (folder / "combined_data_1.txt").write_bytes("".join(films[:2]).encode())
    (folder / "combined_data_2.txt").write_bytes(films[2].rstrip().encode())
    (folder / "movie_titles.csv").write_bytes(TITLES.encode("latin-1"))
    return folder


def packed(folder: Path) -> Path:
    path = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.parent.rglob("*.*"):
            if file.is_file() and file != path:
                archive.write(file, file.relative_to(folder.parent))
    return path


@pytest.mark.parametrize("write", [published, put_together, lambda root: put_together(root, "\r\n")])
@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_a_folder_is_read_whole_with_titles_and_range(write, packing, block, tmp_path, monkeypatch):
    monkeypatch.setattr(netflix, "BLOCK_BYTES", block)
    folder = write(tmp_path)

    ratings = load_ratings(packed(folder) if packing else folder)

    assert contents(ratings) == CONTENTS
    assert ratings.rating_range == (1.0, 5.0)
    assert ratings.titles == ("Dinosaur Planet", '"Weird Al", Live, 1', "Amélie")
    assert ratings.name == folder.name
    assert features_beside(folder) is None


def test_all_listed_films_are_the_catalogue_and_the_list_can_be_named(tmp_path):
    films = published(tmp_path)
    titles = (films.parent / "movie_titles.txt").rename(tmp_path / "movie_titles.txt")
    assert load_ratings(films).titles is None

    ratings = load_ratings(films, titles=titles, catalogue="listed")

    assert ratings.item_ids.tolist() == ["1", "4", "5", "30"]
    assert contents(ratings) == CONTENTS


FAULTS = [
    ("8,3\n", "line 4: neither `item:` nor `user,rating,date`"),
    ("8,3,2005-01-01,9\n", "line 4: neither `item:` nor `user,rating,date`"),
    ("ann,3,2005-01-01\n", "line 4: the user id is not a whole number"),
    ("9999999999,3,2005-01-01\n", "line 4: the user id is not a whole number"),
    ("8,good,2005-01-01\n", "line 4: the rating is not a number"),
    ("8,,2005-01-01\n", "line 4: the rating is not a number"),
    ("8,6,2005-01-01\n", "line 4: rating 6 is outside the public rating range 1 to 5"),
    ("8,0,2005-01-01\n", "line 4: rating 0 is outside the public rating range 1 to 5"),
    ("8,nan,2005-01-01\n", "line 4: the rating is NaN"),
    ("7,4,2005-01-01\n", "line 4: user 7 has already rated item 30"),
    ("\n12:\n\n8,6,2005-01-01\n", "line 7: rating 6 is outside"),
    ("99999999999:\n8,3,2005-01-01\n", "line 4: the item is larger than"),
    (f"{'9' * 5000},3,2005-01-01\n", "line 4: the user id is not a whole number"),
    (f"{'9' * 5000}:\n8,3,2005-01-01\n", "line 4: neither `item:` nor"),
    ("x:\n8,3,2005-01-01\n", "line 4: neither `item:` nor"),
]


@pytest.mark.parametrize(("lines", "expected"), FAULTS)
def test_a_faulty_line_is_named_with_its_file(lines, expected, tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "mv_0000001.txt").write_text(f"1:\n{FILMS[1]}")
    (folder / "mv_0000030.txt").write_text(f"\n30:\n{FILMS[30]}{lines}")

    with pytest.raises(InputError, match=rf"mv_0000030.txt, {re.escape(expected)}") as caught:
        load_ratings(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "holds no ratings"),
        ("1:\n", "holds no ratings"),
        ("\n7,5,2005-09-06\n", "line 2: the first line must be `item:`"),
    ],
)
def test_a_file_without_ratings_or_item_is_refused(text, expected, tmp_path):
    (tmp_path / "mv_0000001.txt").write_text(text)

    with pytest.raises(InputError, match=expected):
        load_ratings(tmp_path)
