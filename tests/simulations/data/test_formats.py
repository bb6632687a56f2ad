"""Every format is read as it was written, packed or not; and what only one of them has."""

import gzip
import os
import zipfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.errors import InputError
from fedboard.simulations.data import FORMATS, ColumnMapping, Ratings, load_ratings
from fedboard.simulations.data.readers import READERS, find_source
from tests.simulations.data.conftest import contents, json_lines, lenskit, written
from tests.simulations.data.sources import A40, N_ITEMS, SOURCES, Row, again, some_rows

REPEATED = {"amazon-2014", "amazon-2018", "amazon-2023", "yelp", "goodreads"}
"""Those whose sources have pairs again, of which the latest counts, and of one time the highest."""
PLAYS = {"msd", "lastfm-360k"}
TITLED = {name for name in SOURCES if name.startswith(("movielens", "netflix")) or name == "recbole"}


def number_of(name: str, told: str) -> int:
    """The number of a user or item that a source writes in its own way."""
    if name in PLAYS and len(told) >= 36:
        return int(told.rpartition("-")[2], 16)
    return int("".join(c for c in told if c.isdigit()))


def expected(name: str, rows: Sequence[Row]) -> dict[tuple[int, int], float]:
    given = again(rows) if name in REPEATED else rows
    latest = {(u, i): float(r) for u, i, r, _ in sorted(given, key=lambda row: (row[3], row[2]))}
    half = 0.5 * (name == "movielens-10m")
    return {pair: 1.0 if name in PLAYS else value + half for pair, value in latest.items()}


def read(name: str, ratings: Ratings) -> dict[tuple[int, int], float]:
    return {
        (number_of(name, user), number_of(name, item)): value
        for (user, item), value in contents(ratings).items()
    }


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_a_format_is_told_and_read_as_it_was_written(name: str, zipped: bool, tmp_path: Path) -> None:
    rows = some_rows()
    source, options = SOURCES[name](tmp_path, rows)
    if zipped and source.is_dir():
        source = zip_of(source.parent if name == "netflix" else source)
    elif zipped and source.suffix in (".csv", ".tsv", ".jsonl", ".txt"):
        content, source = source.read_bytes(), source.with_name(f"{source.name}.gz")
        source.write_bytes(gzip.compress(content))

    ratings = load_ratings(source, **options)

    named = {"parquet of texts": "parquet", "parquet in parts": "parquet"}
    mapped = name in ("csv", "jsonl") or name.startswith("parquet")
    assert find_source(source, None, mapped=mapped).reader.name == named.get(name, name)
    assert read(name, ratings) == expected(name, rows)
    assert ratings.presence == (name in PLAYS)
    usual = {"movielens-20m": (0.5, 5.0), **dict.fromkeys(PLAYS, (0.0, 1.0))}.get(name, (1.0, 5.0))
    assert ratings.rating_range == options.get("rating_range", usual)
    if name in TITLED:
        assert ratings.titles == tuple(f"Amélie {item}" for item in ratings.item_ids)


def zip_of(folder: Path) -> Path:
    """As its publisher does: one folder inside the archive, and what a desk adds to it."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/ratings.csv", b"not this one")
        for file in sorted(found for found in folder.rglob("*") if found.is_file()):
            archive.write(file, f"{folder.name}/{file.relative_to(folder)}")
    return path


def test_each_format_is_stated_once() -> None:
    assert len(set(FORMATS)) == len(FORMATS) == len(READERS)
    assert {name for name in FORMATS if name not in SOURCES} <= {"movielens-latest", "shards"}


def test_a_package_may_bring_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from fedboard.simulations.data.formats.tables import MOVIELENS\nfrom dataclasses import replace\n"
        "READER = replace(MOVIELENS[0], name='stars', recognises=lambda looks: looks.line == '7|1|3|0')\n"
    )
    written(tmp_path / "somebody.py", code)
    written(tmp_path / "somebody-1.0.dist-info" / "METADATA", "Name: somebody\nVersion: 1.0\n")
    entry = "[fedboard.readers]\nstars = somebody:READER\nwrong = somebody:replace\n"
    points = written(tmp_path / "somebody-1.0.dist-info" / "entry_points.txt", entry)
    source = written(tmp_path / "some.txt", "7\t1\t3\t0\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(InputError, match=r"reader 'wrong' must be a Reader record, got function"):
        find_source(source, "stars", mapped=False)
    points.write_text(entry.rpartition("wrong")[0])
    os.utime(tmp_path)

    assert load_ratings(source, format="stars").n_ratings == 1
    assert load_ratings(source, format=f"{tmp_path}/somebody.py:READER").n_ratings == 1
    with pytest.raises(InputError, match=r"unknown format 'star'; .*did you mean 'stars'"):
        load_ratings(source, format="star")


@pytest.mark.parametrize(
    "name", ["a*.csv", "[ab].csv", "it's; DROP TABLE read.csv", "http:a.csv", "s3%3A b.csv"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_name_names_one_file_whatever_is_in_it(name: str, packed: bool, tmp_path: Path) -> None:
    lines = b"user,item,rating\n007,'; DROP TABLE read; --,4\n7,2,1\n"
    source = written(tmp_path / (f"{name}.gz" if packed else name), gzip.compress(lines) if packed else lines)
    for other in ("ab.csv", "a.csv", "b.csv"):
        written(tmp_path / other, lines.replace(b"007", b"8"))

    found = contents(load_ratings(source, rating_range=(1, 5)))

    assert found == {("007", "'; DROP TABLE read; --"): 4.0, ("7", "2"): 1.0}, "and 007 is not 7"


def test_columns_are_found_by_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text('score,note,who,what\n4.5,"a, quoted\nnote",ann,tea\n')
    columns = ColumnMapping(user="who", item="what", rating="score")

    assert contents(load_ratings(path, columns=columns, rating_range=(0, 5))) == {("ann", "tea"): 4.5}


@pytest.mark.parametrize(("largest", "expected"), [("3952", (1.0, 5.0)), ("65133", (0.5, 5.0))])
@pytest.mark.parametrize("name", ["movies.dat", "listed.dat"])
def test_dat_files_without_a_telling_name_are_told_apart_by_the_catalogue(
    largest: str, expected: tuple[float, float], name: str, tmp_path: Path
) -> None:
    (tmp_path / "ratings.dat").write_text("1::1::4::0\n")
    (tmp_path / name).write_text(f"1::One::Drama\n{largest}::Last::Drama\n")

    assert load_ratings(tmp_path / "ratings.dat", titles=tmp_path / name).rating_range == expected


def test_titles_of_a_generic_format_are_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "any.csv").write_text("user,item,rating\na,10,1\na,9,2\n")
    (tmp_path / "names.csv").write_text("item,title\n10,Ten\n9,\n")

    ratings = load_ratings(tmp_path / "any.csv", rating_range=(1, 5), titles=tmp_path / "names.csv")

    assert ratings.titles == ("item 9", "Ten"), "an empty title is replaced by the id"


def test_npz_keeps_its_numbers_and_its_own_test_part(tmp_path: Path) -> None:
    given = {"user": [2, 0], "item": [1, 0], "rating": [5.0, 1.0], "item_id": [70, 60, 50]}
    np.savez(tmp_path / "a.npz", **given, test_user=[3, 0], test_item=[1, 1], test_rating=[2.0, 4.0])

    ratings = load_ratings(tmp_path / "a.npz")

    assert (ratings.n_users, ratings.item_ids.tolist()) == (4, ["70", "60", "50"])
    assert ratings.test is not None
    assert (ratings.test.users.tolist(), ratings.test.values.tolist()) == ([0, 3], [4.0, 2.0])


def test_private_values_do_not_show_in_the_representation(tmp_path: Path) -> None:
    source, options = SOURCES["csv"](tmp_path, some_rows())

    assert "array" not in repr(load_ratings(source, **options))


def test_history_columns_of_amazon_are_left_unread(tmp_path: Path) -> None:
    path = tmp_path / "Books.train.csv"
    path.write_text("user_id,parent_asin,rating,timestamp,history\nAB,B1,4.0,3,\nAB,B2,1.0,9,B1 B1\n")

    assert contents(load_ratings(path)) == {("AB", "B1"): 4.0, ("AB", "B2"): 1.0}


def test_plays_that_are_repeated_are_one_and_a_count_of_none_is_nothing(tmp_path: Path) -> None:
    rows = ((1, 2, 1), (1, 2, 30), (2, 2, 0), (1, 3, 0))
    lines = (f"{A40.format(user)}\tSO{item:016d}\t{count}\n" for user, item, count in rows)
    source = written(tmp_path / "train_triplets.txt", "".join(lines))

    ratings = load_ratings(source)

    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == (1, 1, 1)
    assert ratings.positive(3.5).all()


def test_an_artist_without_a_name_is_called_by_its_id(tmp_path: Path) -> None:
    ann, mbid = A40.format(1), "af8e4cc5-ef54-458d-a194-7b210acf638f"
    path = tmp_path / "usersha1-artmbid-artname-plays.tsv"
    path.write_text(f'{ann}\t{mbid}\tthe "corpse"\t1\n{ann}\t{mbid}\t\t4\n')

    assert load_ratings(path).item_ids.tolist() == [mbid, 'the "corpse"']


WHOLE = {
    "yelp_academic_dataset_review.json": {
        **{"review_id": "rQY8N_XvtGbearJ5X4QrAA", "user_id": "uwjRMXRC0KyPrIlcjaXeBB", "business_id": "42"},
        **{
            "stars": 2.0,
            "useful": 5,
            "funny": 0,
            "text": 'As "someone",\nwho',
            "date": "2015-04-15 05:21:16",
        },
    },
    "goodreads_interactions_poetry.json": {
        **{"user_id": "80d52f5e70f023bd0098ab96599a3000", "book_id": "42", "is_read": True, "rating": 2},
        **{"review_text_incomplete": "", "date_added": "Fri Apr 19 08:15:15 -0700 2013", "read_at": ""},
    },
    "goodreads_reviews_dedup.json": {
        **{"user_id": "8842281e1d1347389f2ab93d60773000", "book_id": "42", "rating": 2, "n_votes": 16},
        **{"review_text": "Mind blowing.", "date_added": "Fri Aug 25 13:55:02 -0700 2017", "read_at": ""},
    },
}
"""With the fields and forms of the published files, people and texts made up."""


TIMES = ["2015-04-15T05:21:16+00:00", "2013-04-19T08:15:15-07:00", "2017-08-25T13:55:02-07:00"]


@pytest.mark.parametrize(("name", "when"), list(zip(WHOLE, TIMES, strict=True)))
def test_lines_with_every_published_field_are_read(name: str, when: str, tmp_path: Path) -> None:
    ratings = load_ratings(json_lines(tmp_path / name, [WHOLE[name]]), times=True)

    assert contents(ratings) == {(WHOLE[name]["user_id"], "42"): 2.0}
    assert ratings.times is not None
    assert ratings.times.tolist() == [datetime.fromisoformat(when).timestamp()]


def test_numbers_of_rows_of_lenskit_become_ids_and_its_items_are_the_catalogue(tmp_path: Path) -> None:
    folder = lenskit(tmp_path / "set")

    ratings = load_ratings(folder / "schema.json", rating_range=(0.5, 5), times=True)
    listed = load_ratings(folder, rating_range=(0.5, 5), catalogue="listed")

    assert contents(ratings) == {("ann", "30"): 1.0, ("ann", "4"): 5.0, ("bob", "4"): 3.5}
    assert ratings.times is not None
    assert ratings.times.tolist() == [9, 8, 7]
    assert (listed.item_ids.tolist(), listed.titles) == (["4", "5", "30"], ("Amélie", "item 5", "Heat"))


def test_films_that_nobody_rated_are_in_the_catalogue_of_the_prize(tmp_path: Path) -> None:
    films, _ = SOURCES["netflix"](tmp_path, some_rows())
    titles = (films.parent / "movie_titles.txt").rename(tmp_path / "movie_titles.txt")

    assert load_ratings(films).titles is None
    assert load_ratings(films, titles=titles, catalogue="listed").n_items == N_ITEMS + 1


@pytest.mark.slow
def test_the_command_line_trains_on_plays_as_implicit_feedback_alone(tmp_path: Path) -> None:
    rng, run = np.random.default_rng(1), tmp_path / "run"
    lines = (f"{u:040x}\tSO{i:016d}\t{u % 3 + 1}\n" for u in range(150) for i in rng.permutation(40)[:12])
    source = written(tmp_path / "train_triplets.txt", "".join(lines)).parent
    words = f"simulate --data {source} --set run.kernels=numpy --no-baselines --no-report --out {run}".split()

    refused = CliRunner().invoke(commands, words)
    ended = CliRunner().invoke(commands, [*words, "--feedback", "implicit"])

    assert refused.exit_code == 2
    assert "there are no ratings to predict. Say --feedback implicit" in " ".join(refused.output.split())
    assert ended.exit_code == 0, ended.output
    assert "150 users" in ended.output
