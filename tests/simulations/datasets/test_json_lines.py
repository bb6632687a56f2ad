"""JSON lines: Yelp's and Goodreads' files told by their fields, any other read by named ones, faults by line."""

import gzip
import json
from datetime import datetime
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.datasets import ColumnMapping, load_ratings
from fedboard.simulations.datasets.readers import find_source

NAMES = {"yelp": "yelp_academic_dataset_review.json", "goodreads": "goodreads_interactions_poetry.json"}
YELP = [
    {
        "review_id": "r1",
        "user_id": "ann",
        "business_id": "tea",
        "stars": 4.0,
        "text": "a\n{b",
        "date": "2018-07-07 22:09:11",
    },
    {"review_id": "r2", "user_id": "bob", "business_id": "jam", "stars": 3, "date": "2018-07-06 22:09:11"},
    {"review_id": "r3", "user_id": "ann", "business_id": "tea", "stars": 1.0, "date": "2018-07-08 00:00:00"},
]
GOODREADS = [
    {
        "user_id": "u1",
        "book_id": "1384",
        "is_read": True,
        "rating": 4,
        "date_added": "Wed Dec 09 21:02:59 -0800 2015",
    },
    {
        "user_id": "u1",
        "book_id": "1376",
        "is_read": False,
        "rating": 0,
        "date_added": "Wed Dec 09 21:02:59 -0800 2015",
    },
    {
        "user_id": "u2",
        "book_id": "1384",
        "is_read": True,
        "rating": 5,
        "date_added": "Fri Aug 25 13:55:02 +0200 2017",
    },
]
ROWS = {"yelp": YELP, "goodreads": GOODREADS}
ANY = ColumnMapping(user="who", item="what", rating="stars", time="when")
PLAIN = [
    {"what": "tea", "who": 9, "stars": 4, "when": 7, "more": {"x": [1]}},
    {"who": 10, "what": "jam", "stars": 2.5, "when": 8},
]


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", ["file", "folder", "packed"])
def test_published_files_are_told_by_their_fields_and_names(name: str, given: str, tmp_path: Path) -> None:
    path = written(tmp_path / NAMES[name], ROWS[name])
    if given == "packed":
        path = tmp_path / f"{path.name}.gz"
        path.write_bytes(gzip.compress((tmp_path / NAMES[name]).read_bytes()))
    source = tmp_path if given == "folder" else path

    assert find_source(source, None, mapped=False).reader.name == name
    assert load_ratings(source).rating_range == (1.0, 5.0)


_ADDED = "Fri Apr 19 08:15:15 -0700 2013"
WHOLE = {
    "yelp_academic_dataset_review.json": {
        **{"review_id": "rQY8N_XvtGbearJ5X4QrAA", "user_id": "uwjRMXRC0KyPrIlcjaXeBB"},
        **{"business_id": "-bhfebM0QIsKt87iDN-FCC", "stars": 2.0, "useful": 5, "funny": 0, "cool": 0},
        **{"text": 'As "someone",\nwho', "date": "2015-04-15 05:21:16"},
    },
    "goodreads_interactions_poetry.json": {
        **{"user_id": "80d52f5e70f023bd0098ab96599a3000", "book_id": "402128"},
        **{"review_id": "fbd6a22a155c87a84fba7537f06c0000", "is_read": True, "rating": 2},
        **{"review_text_incomplete": "", "date_added": _ADDED, "date_updated": _ADDED},
        **{"read_at": "", "started_at": ""},
    },
    "goodreads_reviews_dedup.json": {
        **{"user_id": "8842281e1d1347389f2ab93d60773000", "book_id": "24375664"},
        **{"review_id": "5cd416f3efc3f944fce4ce2db2290000", "rating": 2, "review_text": "Mind blowing."},
        **{"date_added": "Fri Aug 25 13:55:02 -0700 2017", "date_updated": _ADDED, "read_at": ""},
        **{"started_at": "", "n_votes": 16, "n_comments": 0},
    },
}
"""With all fields and forms of the published files, people and texts made up."""


@pytest.mark.parametrize("name", WHOLE)
def test_lines_with_every_published_field_are_read(name: str, tmp_path: Path) -> None:
    fields = WHOLE[name]
    ratings = load_ratings(written(tmp_path / name, [fields]), times=True)

    assert ratings.user_ids.tolist() == [fields["user_id"]]
    assert ratings.item_ids.tolist() == [fields.get("business_id", fields.get("book_id"))]
    assert ratings.values.tolist() == [2.0]
    assert ratings.times is not None
    said = {"yelp": "2015-04-15T05:21:16+00:00", "interactions": "2013-04-19T08:15:15-07:00"}
    when = next((time for word, time in said.items() if word in name), "2017-08-25T13:55:02-07:00")
    assert ratings.times.tolist() == [datetime.fromisoformat(when).timestamp()]


def test_of_several_reviews_of_a_business_the_latest_counts(tmp_path: Path) -> None:
    ratings = load_ratings(written(tmp_path / NAMES["yelp"], YELP), times=True)

    assert (ratings.user_ids.tolist(), ratings.item_ids.tolist()) == (["ann", "bob"], ["jam", "tea"])
    assert (ratings.users.tolist(), ratings.items.tolist(), ratings.values.tolist()) == (
        [0, 1],
        [1, 0],
        [1, 3],
    )
    assert ratings.times is not None
    assert ratings.times.tolist() == [1_531_008_000, 1_530_914_951]


def test_a_book_that_was_shelved_and_not_rated_is_no_rating(tmp_path: Path) -> None:
    ratings = load_ratings(written(tmp_path / NAMES["goodreads"], GOODREADS), times=True)

    assert (ratings.user_ids.tolist(), ratings.item_ids.tolist()) == (["u1", "u2"], ["1384"])
    assert ratings.values.tolist() == [4, 5]
    assert ratings.times is not None
    assert ratings.times.tolist() == [1_449_723_779, 1_503_662_102]  # of the zones that they state


def test_any_file_is_read_by_named_fields_with_ids_of_any_kind(tmp_path: Path) -> None:
    ratings = load_ratings(written(tmp_path / "r.jsonl", PLAIN), columns=ANY, rating_range=(1, 5), times=True)

    assert (ratings.user_ids.tolist(), ratings.item_ids.tolist()) == ([9, 10], ["jam", "tea"])
    assert (ratings.values.tolist(), ratings.items.tolist()) == ([4, 2.5], [1, 0])
    assert ratings.times is not None
    assert ratings.times.tolist() == [7, 8]


FAULTS: list[tuple[dict[str, object] | str, str]] = [
    ("{", "it is no JSON"),
    ("[1]", "it is no object"),
    ({"what": "tea", "stars": 4, "when": 7}, "the user id 'who' is missing"),
    ({"who": 9, "what": "", "stars": 4, "when": 7}, "the item id is empty"),
    (
        {"who": "9", "what": "tea", "stars": 4, "when": 7},
        "the user id 'who' is a text in some lines and",
    ),
    ('{"who": 9, "what": "\\ud800", "stars": 4, "when": 7}', "the item id 'what' is not UTF-8 text"),
    ({"who": 2**70, "what": "tea", "stars": 4, "when": 7}, "the user id 'who' is too large a number"),
    ({"who": 9, "what": "tea", "stars": "4", "when": 7}, "the rating 'stars' is not a number"),
    ({"who": 9, "what": "tea", "when": 7}, "the rating 'stars' is not a number"),
    ({"who": 9, "what": "tea", "stars": 4}, "the time 'when' is none"),
]


@pytest.mark.parametrize(("row", "said"), FAULTS, ids=lambda x: str(x)[:30])
def test_a_faulty_line_is_named(row: dict[str, object] | str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", PLAIN)
    path.write_text(path.read_text() + (row if isinstance(row, str) else json.dumps(row)) + "\n")

    with pytest.raises(InputError) as told:
        load_ratings(path, columns=ANY, rating_range=(1, 5), times=True)

    assert f"r.jsonl, line 4: {said}" in str(told.value)
    assert "\n" not in str(told.value)


def test_what_cannot_be_read_is_told_before_it_is(tmp_path: Path) -> None:
    plain = written(tmp_path / "r.jsonl", PLAIN)
    none = written(tmp_path / NAMES["goodreads"], [GOODREADS[1]])

    with pytest.raises(
        InputError, match=r"r.jsonl, line 1: there is no column 'user' for the user, only what"
    ):
        load_ratings(plain, rating_range=(1, 5))
    with pytest.raises(InputError, match="the rating range of this format is not known"):
        load_ratings(plain, columns=ANY)
    with pytest.raises(InputError, match="this rating and all others are 0"):
        load_ratings(none)
    with pytest.raises(InputError, match=r"r.jsonl, line 1: the user id 'user_id' is missing"):
        load_ratings(plain, format="yelp")
    bad = [GOODREADS[0] | {"date_added": "Fri Aug 45 13:55:02 +0200 2017"}]
    with pytest.raises(InputError, match="line 1: the time 'date_added' is none"):
        load_ratings(written(none, bad))
