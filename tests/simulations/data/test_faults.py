"""What is wrong with a source is said in one sentence: in which file, in which line, and what must be there."""

import gzip
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.common.errors import InputError
from fedboard.server.catalogue import titles as catalogue_titles
from fedboard.simulations.data import ColumnMapping, SyntheticConfig, load_ratings
from tests.simulations.data.conftest import SCHEMA, TABLES, json_lines, lenskit, written

STARS = "userId,movieId,rating,timestamp\n"
PLAIN = "user,item,rating\n"
RECBOLE = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
ANN, SONG = "b80344d063b5ccb3212f76538f3d9e43d87dca9e", "SOAKIMP12A8C130995"
MSD, LASTFM = "train_triplets.txt", "usersha1-artmbid-artname-plays.tsv"
PLAYED, HEARD = f"{ANN}\t{SONG}\t1\n", f"{ANN}\t\telis\t1\n"
BOUGHT, FILM = "A1A2A3A4A5,B00005N5PF,3.0,1\n", "30:\n7,4,2005-10-19\n"
RANGE = {"rating_range": (1, 5)}
LINES = {
    "columns": ColumnMapping(user="who", item="what", rating="stars", time="when"),
    "times": True,
    **RANGE,
}
LINE = '{"who": 9, "what": "tea", "stars": 4, "when": 7}\n'


def said(path: Path, **options: Any) -> str:
    """The sentence with which a source is refused, without its own place."""
    with pytest.raises(InputError) as told:
        load_ratings(path, **options)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert len(sentence) < 600
    return sentence


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("ml/ratings.csv", STARS, "has a header but no ratings"),
        ("ml/ratings.csv", STARS + "1,2,3,0\n1,3,good,0\n", "line 3: rating 'good' is not a number"),
        ("ml/ratings.csv", STARS + "1,2,,0\n", "line 2: the rating is empty"),
        ("ml/ratings.csv", STARS + "1,2,3,0\n\n1,3,nan,0\n", "line 4: the rating is NaN; ratings must be"),
        (
            "ml/ratings.csv",
            STARS + "1,2,3,0\n1,3,6,0\n",
            "line 3: rating 6 is outside the public rating range",
        ),
        ("ml/ratings.csv", STARS + "1,2,inf,0\n", "line 2: rating inf is outside"),
        ("ml/ratings.csv", STARS + "1,2,3,0\n2,2,4,0\n1,2,4,0\n", "line 4: user 1 has already rated item 2"),
        ("ml/ratings.csv", STARS + "ann,2,3,0\n", "line 2: user id 'ann' is not a whole number"),
        ("ml/ratings.csv", STARS + "1,,3,0\n", "line 2: the item id is empty"),
        ("ml/ratings.csv", STARS + "1,9999999999,3,0\n", "item id '9999999999' is not a whole number up to"),
        ("ml/ratings.csv", STARS + "1,2,3,0\n1,3,3\n", "line 3: 3 columns where 4 are expected"),
        ("ml-1m/ratings.dat", "1::2::3::0\n1::3::0.5::0\n", "line 2: rating 0.5 is outside the public"),
        ("ml-1m/ratings.dat", "1::2::3::0\n1::2::3::0\n", "line 2: user 1 has already rated item 2"),
        ("ml-1m/ratings.dat", "1::2::3::0\n1:x:3::3::0\n", "line 2: 3 columns where 4 are expected"),
        ("ml-1m/u.data", "1\t2\t3\t0\n1\t3\t0\t0\n", "line 2: rating 0 is outside the public rating range"),
        ("any.csv", PLAIN, "has a header but no ratings"),
        (
            "any.csv",
            "user,thing,rating\na,b,3\n",
            "line 1: there is no column 'item' for the item, only user",
        ),
        ("any.csv", "user,item,rating,item\na,b,3,c\n", "line 1: the column 'item' occurs more than once"),
        ("any.csv", PLAIN + "a,b,3\n,b,3\n", "line 3: the user id is empty"),
        ("any.csv", PLAIN + 'a,"b\nc",3\nd,e,9\n', "line 4: rating 9 is outside the public rating range"),
        ("any.csv", PLAIN + "a,b,3\na,b,3\n", "line 3: user a has already rated item b"),
        ("any.csv", PLAIN.encode() + b"a,b,3\nm\xfcller,b,3\n", "line 3: it is not UTF-8 text"),
        ("any.tsv", "user\titem\trating\na\tb\n", "line 2: 2 columns where 3 are expected"),
        ("a.inter", RECBOLE.replace("rating", "label") + "a\t9\t3\t1\n", "there is no column 'rating:float'"),
        ("a.inter", RECBOLE + "a\t9\tgood\t1\n", "line 2: rating 'good' is not a number"),
        ("a.inter", RECBOLE + "a\t9\t3\n", "line 2: 3 columns where 4 are expected"),
        (MSD, PLAYED + f"{ANN}\tSO\t-1\n", "line 2: the count is negative or NaN"),
        (MSD, PLAYED + f"{ANN}\tSO\tnan\n", "line 2: the count is negative or NaN"),
        (MSD, PLAYED + f"{ANN}\tSO\tmany\n", "line 2: rating 'many' is not a number"),
        (MSD, f"{ANN}\t{SONG}\t0\n", "0"),
        (LASTFM, HEARD + f"{ANN}\t\t\t1\n", "line 2: the item id is empty"),
        (LASTFM, HEARD + f"{ANN}\t\tjam\t\n", "line 2: the rating is empty"),
        ("Books.csv", BOUGHT + "A1A2A3A4A5,B00005N5PG,6.0,1\n", "line 2: rating 6 is outside the public"),
        ("Books.csv", BOUGHT + ",B00005N5PF,3.0,1\n", "line 2: the user id is empty"),
        (
            "Books.csv",
            BOUGHT + "A1A2A3A4A5,B00005N5PG,3.0,June\n",
            "line 2: timestamp 'June' is not a whole number",
        ),
        (
            "Books.csv",
            BOUGHT + f"A1A2A3A4A5,B1,3.0,{2**63}\n",
            f"line 2: timestamp '{2**63}' is not a whole number",
        ),
        ("films/mv_1.txt", FILM + "8,3\n", "line 3: neither `item:` nor `user,rating,date`"),
        ("films/mv_1.txt", FILM + "ann,3,2005-01-01\n", "line 3: user id 'ann' is not a whole number"),
        (
            "films/mv_1.txt",
            FILM + f"{'9' * 5000},3,2005-01-01\n",
            "line 3: user id '9999",
        ),
        ("films/mv_1.txt", FILM + "8,,2005-01-01\n", "line 3: the rating is empty"),
        ("films/mv_1.txt", FILM + "8,6,2005-01-01\n", "line 3: rating 6 is outside the public rating range"),
        ("films/mv_1.txt", FILM + "8,nan,2005-01-01\n", "line 3: the rating is NaN"),
        ("films/mv_1.txt", FILM + "7,4,2005-01-01\n", "line 3: user 7 has already rated item 30"),
        ("films/mv_1.txt", FILM + "\n12:\n\n8,6,2005-01-01\n", "line 6: rating 6 is outside"),
        (
            "films/mv_1.txt",
            FILM + "99999999999:\n8,3,2005-01-01\n",
            "line 4: item id '99999999999' is not a whole",
        ),
        ("films/mv_1.txt", "\n7,5,2005-09-06\n", "the first line must be `item:`"),
        ("films/mv_1.txt", "1:\n", "holds no ratings"),
        ("broken.zip", b"PK\x03\x04 and then nothing", "is a broken zip archive"),
        ("broken.npz", b"not an archive", "is not a readable npz file"),
        ("broken.parquet", b"PAR1 and then nothing", "is not a readable Parquet file"),
        ("broken.parquet", b"", "is not a readable Parquet file"),
        ("unknown.xyz", b"what is this?", "the format is not recognised; name it, one of movielens-100k,"),
        ("ratings.dat", b"1::2::3::0\n", "name the format movielens-1m or movielens-10m"),
    ],
)
def test_a_fault_is_named_by_file_line_and_rule(
    name: str, content: str | bytes, expected: str, tmp_path: Path
) -> None:
    path = written(tmp_path / name.replace("mv_1", "mv_0000001"), content)
    declared = RANGE if name.startswith(("any", "a.inter", "unknown", "broken.p")) else {}

    sentence = said(path.parent if name.startswith("films") else path, **declared)

    assert path.name in sentence
    assert expected in sentence


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "it is no object of JSON (Input data was truncated)"),
        ("[1]", "it is no object of JSON (Expected `object`, got `array`)"),
        (LINE.replace("who", "whom"), "the user id is empty"),
        (LINE.replace("tea", ""), "the item id is empty"),
        (LINE.replace("9", '"9"'), "user id '9' is not a whole number of 64 bits, as in the first line"),
        (LINE.replace("tea", "\\ud800"), "it is no object of JSON (JSON is malformed"),
        (LINE.replace("9", str(2**70)), "user id '1180591620717411303424' is not a whole number of 64 bits"),
        (LINE.replace("4", '"4"'), "rating '4' is not a number"),
        (LINE.replace("when", "then"), "the time is empty"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_a_faulty_line_of_json_is_named(line: str, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", LINE.replace("tea", "jam") + "\n" + line + "\n")

    assert f"r.jsonl, line 3: {expected}" in said(path, **LINES)


def test_json_of_which_nothing_can_be_read_is_told_before_it_is(tmp_path: Path) -> None:
    plain = written(tmp_path / "r.jsonl", LINE)
    book = {"user_id": "u", "book_id": "b", "is_read": True, "date_added": "Fri Aug 25 13:55:02 +0200 2017"}
    shelved = json_lines(tmp_path / "goodreads_interactions_poetry.json", [book | {"rating": 0}])

    assert "r.jsonl, line 1: there is no column 'user' for the user, only w" in said(plain, **RANGE)
    assert "r.jsonl, line 1: the user id is empty" in said(plain, format="yelp")
    assert "this rating and all others are 0" in said(shelved)
    json_lines(shelved, [book | {"rating": 1, "date_added": "Fri Aug 45 13:55:02 +0200 2017"}])
    assert "line 1: time 'Fri Aug 45 13:55:02 +0200 2017' is no time" in said(shelved)


COLUMNS = {"user": [1, 1], "item": [1, 2], "rating": [3.0, 3.0]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rating": None}, "there is no column 'rating' for the rating, only user, item"),
        ({"rating": [3, 6]}, "row 2: rating 6 is outside"),
        ({"rating": [3, None]}, "row 2: the rating is empty"),
        ({"user": [1, None]}, "row 2: the user id is empty"),
        ({"rating": [3.0, np.nan]}, "row 2: the rating is NaN"),
        ({"item": [1, 1]}, "row 2: user 1 has already rated item 1"),
        ({"user": [1.5, 1.5]}, "the ids in 'user' are double; they must be whole numbers"),
        ({"rating": ["good", "bad"]}, "the ratings in 'rating' are varchar, not numbers"),
        ({name: pa.array([], pa.int64()) for name in COLUMNS}, "has columns but no ratings"),
    ],
)
def test_a_fault_of_a_parquet_file_is_named_by_its_row(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    columns = {name: values for name, values in (COLUMNS | changes).items() if values is not None}
    parquet.write_table(pa.table(columns), tmp_path / "any.parquet")

    sentence = said(tmp_path / "any.parquet", **RANGE)

    assert "any.parquet" in sentence
    assert expected in sentence


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"item_id": None}, "there is no array 'item_id'"),
        ({"test_user": [0]}, "there is no array 'test_item'"),
        ({"rating": [3.0]}, "differ in length"),
        ({"user": [], "item": [], "rating": []}, "is empty"),
        ({"user": [0.5, 1.0]}, "the array 'user' must be one column of numbers"),
        ({"rating": [3.0, 6.0]}, "row 2 of user, item, rating: rating 6 is outside the public rating range"),
        ({"rating": [np.nan, 1.0]}, "row 1 of user, item, rating: the rating is NaN"),
        ({"item": [0, 2]}, "row 2 of user, item, rating: unknown item number 2; it must be 0 to 1"),
        ({"user": [0, -1]}, "row 2 of user, item, rating: unknown user number -1"),
        ({"user": [0, 0], "item": [1, 1]}, "row 2 of user, item, rating: user 0 has already rated item 1"),
        ({"test_user": [0], "test_item": [1], "test_rating": [9.0]}, "row 1 of test_user, test_item, test"),
        ({"test_user": [0], "test_item": [0], "test_rating": [3.0]}, "are in the training and in the test"),
    ],
)
def test_a_fault_of_an_npz_file_is_named_by_its_row(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    arrays = {"user": [0, 1], "item": [0, 1], "rating": [3.0, 4.0], "item_id": [7, 8]} | changes
    np.savez(tmp_path / "a.npz", **{name: np.array(own) for name, own in arrays.items() if own is not None})

    assert expected in said(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"schema": []}, "is no schema of a LensKit data set"),
        ({"schema": SCHEMA | {"relationships": {}}}, "names no table of users and items"),
        (
            {"schema": {"relationships": {"../x": {"entities": {"user": None, "item": None}}}}},
            "names no table of",
        ),
        ({"rating": {"item_num": [3, 0, 1]}}, "row 1: item_num '3' counts no row of item.parquet"),
        ({"rating": {"user_num": [0, -1, 1]}}, "row 2: user_num '-1' counts no row of user.parquet"),
        ({"rating": {"rating": ["a", "b", "c"]}}, "the ratings in 'rating' are varchar"),
        ({"rating": {"rating": [1.0, None, 2.0]}}, "row 2: the rating is empty"),
    ],
)
def test_what_is_wrong_with_a_set_of_lenskit_is_told(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    if "rating" in changes:
        changes = {"rating": TABLES["rating"] | changes["rating"]}

    assert expected in said(lenskit(tmp_path / "set", **changes), rating_range=(0.5, 5))


@pytest.mark.parametrize("name", ["user", "item", "rating"])
def test_a_table_of_lenskit_that_is_damaged_or_missing_is_named(name: str, tmp_path: Path) -> None:
    path = lenskit(tmp_path / "set") / f"{name}.parquet"
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2"))
    assert f"{name}.parquet" in said(tmp_path / "set", rating_range=(0.5, 5))
    path.unlink()
    assert f"{name}.parquet" in said(tmp_path / "set", rating_range=(0.5, 5))


def test_faults_inside_archives_are_named_by_member_and_line(tmp_path: Path) -> None:
    member, archive = "ml-20m/ratings.csv", tmp_path / "ml-20m.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(member, STARS + "3,10,5,0\n3,10,5,0\n" + "4,10,5,0\n")
    assert "ml-20m.zip (ml-20m/ratings.csv), line 3: user 3 has already" in said(archive)

    with zipfile.ZipFile(archive) as opened:
        start = opened.getinfo(member).header_offset + 30 + len(member)
    content = bytearray(archive.read_bytes())
    content[start + 5 : start + 25] = b"\xff" * 20
    archive.write_bytes(content)
    assert "is a broken zip archive" in said(archive)


@pytest.mark.parametrize("damage", ["cut short", "no gzip at all", "a bit turned"])
def test_a_damaged_gzip_file_is_told_in_a_sentence(tmp_path: Path, damage: str) -> None:
    content = gzip.compress("".join(f"{n}\t{n % 7}\t3\t0\n" for n in range(400_000)).encode(), 1)
    middle = len(content) // 2
    turned = content[:middle] + bytes([content[middle] ^ 64]) + content[middle + 1 :]
    wrong = {"cut short": content[:-9], "no gzip at all": b"1\t2\t3\t0\n" * 5, "a bit turned": turned}
    path = written(tmp_path / "u.data.gz", wrong[damage])

    sentence = said(path, format="movielens-100k")

    assert "u.data.gz is damaged or was cut short" in sentence or damage == "a bit turned"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "lists no items"),
        ("item,title\n", "lists no items"),
        ("item,name\n2,Two\n", "line 1: there is no column 'title', only item, name"),
        ("item,title\n2,Two\n10\n", "line 3: no title column"),
        ("item,title\n2,Amélie\n".encode("latin-1"), "is not text in utf-8"),
        ("item,title\n9,Nine\n", "unknown item id '2'; every item must be in"),
    ],
)
def test_a_faulty_file_of_titles_is_named(content: str | bytes, expected: str, tmp_path: Path) -> None:
    ratings, titles = written(tmp_path / "r.csv", PLAIN + "1,2,3\n"), written(tmp_path / "t.csv", content)

    sentence = said(ratings, titles=titles, **RANGE)

    assert ("r.csv, line 2" if "unknown" in expected else str(titles)) in sentence
    assert expected in sentence


def test_a_list_of_items_that_unpacks_to_no_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_titles, "_MOST_BYTES", 1 << 20)
    ratings = written(tmp_path / "r.csv", PLAIN + "1,2,3\n")
    titles = written(tmp_path / "t.csv.gz", gzip.compress(b"item,title\n" + b"2," + b" " * (4 << 20)))

    assert "t.csv.gz is larger than 1 MiB unpacked" in said(ratings, titles=titles, **RANGE)


SAME = ColumnMapping(user="user", item="user", rating="rating")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "the rating range of this format is not known; declare it"),
        ({"format": "excel"}, "unknown format 'excel'; use one of movielens-100k"),
        ({"columns": SAME, **RANGE}, "the columns for user, item and rating must differ"),
        ({"catalogue": "listed", **RANGE}, "there is no list of items; give a file of titles"),
        *(
            ({"rating_range": scale}, "the rating range must be two numbers, the lower first")
            for scale in ((5, 1), (1, 1), (1,), 5, (1, float("inf")), (float("nan"), 5), ("a", "b"))
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert expected in said(written(tmp_path / "any.csv", PLAIN + "a,b,3\n"), **options)


def test_a_place_without_ratings_says_what_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not exist; give a file, a folder or a zip archive" in said(tmp_path / "nowhere.csv")
    assert re.search(r"holds none of u\.data, ratings\.dat, ratings\.csv", said(tmp_path))
    for part in ("train", "test"):
        written(tmp_path / f"tiny.{part}.inter", RECBOLE + "a\t9\t3\t1\n")
    assert "one of several (tiny.test.inter, tiny.train.inter)" in said(tmp_path, **RANGE)
    monkeypatch.setattr("fedboard.simulations.data.workbench.find_spec", lambda name: None)
    assert "needs duckdb and pyarrow; pip install '.[sim]'" in said(tmp_path / "tiny.test.inter", **RANGE)


def test_a_plain_table_with_a_repeated_pair_of_a_shop_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "Books.csv", "user_id,parent_asin,rating,timestamp\nu,i,1,1\nu,i,2,2\n")
    columns = ColumnMapping(user="user_id", item="parent_asin", rating="rating")

    assert "has already rated item" in said(path, columns=columns, **RANGE)


@pytest.mark.parametrize(
    "field", ["n_users", "n_items", "mean_ratings_per_user", "minimum_ratings_per_user", "seed"]
)
def test_synthetic_sizes_out_of_range_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} must be"):
        SyntheticConfig(**{field: -1})
