"""When ratings were given: read by every format that says so, and asked for in a sentence where one does not."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.common.errors import InputError
from fedboard.ratings import load_ratings as from_python
from fedboard.simulations.data import ColumnMapping, Ratings, load_ratings

FIRST, SECOND = 1_133_395_200, 1_133_481_600  # 2005-12-01 and 2005-12-02
BOOK, DISC = "0001713353", "B000LQOCH0"
DATES = "user,item,rating,when\nann,tea,4,2005-12-02\nann,jam,3,2005-12-01\nbob,tea,5,2005-12-01\n"
"""The same three ratings in every format: ann's of jam before hers of tea, bob's of tea when she rated jam."""
FILES = {
    "u.data": f"1\t2\t4\t{SECOND}\n1\t1\t3\t{FIRST}\n2\t2\t5\t{FIRST}\n",
    "ml-1m.dat": f"1::2::4::{SECOND}\n1::1::3::{FIRST}\n2::2::5::{FIRST}\n",
    "ratings.csv": f"userId,movieId,rating,timestamp\n1,2,4,{SECOND}\n1,1,3,{FIRST}\n2,2,5,{FIRST}\n",
    "combined_data_1.txt": "2:\n1,4,2005-12-02\n2,5,2005-12-01\n1:\n1,3,2005-12-01\n",
    "of-2014.csv": f"A11111,{DISC},4.0,{SECOND}\nA11111,{BOOK},3.0,{FIRST}\nA22222,{DISC},5.0,{FIRST}\n",
    "of-2018.csv": f"{DISC},A11111,4.0,{SECOND}\n{BOOK},A11111,3.0,{FIRST}\n{DISC},A22222,5.0,{FIRST}\n",
    "of-2023.csv": "user_id,parent_asin,rating,timestamp\n"
    f"A11111,{DISC},4.0,{SECOND}999\nA11111,{BOOK},3.0,{FIRST}001\nA22222,{DISC},5.0,{FIRST}000\n",
    "ours.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    f"1\t2\t4\t{SECOND}.5\n1\t1\t3\t{FIRST}\n2\t2\t5\t{FIRST}.0\n",
    "dates.csv": DATES,
    "seconds.csv": DATES.replace("2005-12-01", str(FIRST)).replace("2005-12-02", str(SECOND)),
    "fractions.csv": DATES.replace("2005-12-01", f"{FIRST}.25").replace("2005-12-02", f"{SECOND}.5"),
    "stamps.tsv": DATES.replace(",", "\t")
    .replace("12-01", "12-01 00:00:00")
    .replace("12-02", "12-02 00:00:00"),
}
TABLE = ColumnMapping(time="when")


def read(path: Path) -> Ratings:
    generic = path.read_text().startswith("user,") or path.suffix == ".tsv"
    return load_ratings(
        path,
        columns=TABLE if generic else None,
        rating_range=(1, 5),
        format="movielens-1m" if path.suffix == ".dat" else None,
        times=True,
    )


@pytest.mark.parametrize("name", FILES)
def test_times_are_read_in_seconds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])

    ratings = read(tmp_path / name)

    assert (ratings.users.tolist(), ratings.items.tolist()) == ([0, 0, 1], [0, 1, 1])
    assert ratings.values.tolist() == [3, 4, 5]
    assert ratings.times is not None
    assert ratings.times.tolist() == [FIRST, SECOND, FIRST]
    assert ratings.times.dtype == np.int64


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ms"), pa.date32(), pa.int64(), pa.timestamp("us", tz="Asia/Tokyo")]
)
def test_a_parquet_file_has_times_of_any_kind(kind: pa.DataType, tmp_path: Path) -> None:
    seconds = pa.array([SECOND, FIRST, FIRST])
    when = seconds if kind == pa.int64() else seconds.cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    when = when if kind == pa.int64() else when.cast(kind) if kind.__class__ is not pa.TimestampType else when
    table = {"user": ["ann", "ann", "bob"], "item": ["tea", "jam", "tea"], "rating": [4, 3, 5], "when": when}
    parquet.write_table(pa.table(table), tmp_path / "r.parquet")

    ratings = load_ratings(tmp_path / "r.parquet", rating_range=(1, 5), columns=TABLE, times=True)

    assert ratings.times is not None
    assert ratings.times.tolist() == [FIRST, SECOND, FIRST]


def test_of_several_ratings_of_a_pair_the_time_of_the_one_that_counts_is_kept(tmp_path: Path) -> None:
    (tmp_path / "of-2014.csv").write_text(FILES["of-2014.csv"] + f"A22222,{DISC},1.0,{SECOND}\n")

    ratings = read(tmp_path / "of-2014.csv")

    assert ratings.times is not None
    assert (ratings.values.tolist(), ratings.times.tolist()) == ([3, 4, 1], [FIRST, SECOND, SECOND])


@pytest.mark.parametrize("framework", ["pandas", "polars", "pyarrow", "arrays"])
def test_data_in_memory_bring_their_times(framework: str) -> None:
    columns = {"user": ["ann", "ann", "bob"], "item": ["tea", "jam", "tea"], "rating": [4, 3, 5]}
    when = np.array([SECOND, FIRST, FIRST], dtype="datetime64[s]").astype("datetime64[us]")
    if framework == "arrays":
        ratings = from_python((*columns.values(), when), rating_range=(1, 5))
    else:
        module = pytest.importorskip(framework)
        make = module.table if framework == "pyarrow" else module.DataFrame
        frame = make(columns | {"when": when})
        ratings = from_python(frame, rating_range=(1, 5), columns={"time": "when"})

    assert ratings.times is not None
    assert (ratings.values.tolist(), ratings.times.tolist()) == ([3, 4, 5], [FIRST, SECOND, FIRST])


@pytest.mark.parametrize(
    ("name", "was", "wrong", "said"),
    [
        ("u.data", f"3\t{FIRST}", "3\tsoon", "u.data, line 2: time 'soon' is not a whole number"),
        ("ml-1m.dat", f"::{SECOND}", "::", "ml-1m.dat, line 1: the time is empty"),
        (
            "dates.csv",
            "2005-12-02",
            "soon",
            "dates.csv, line 2: when 'soon' is neither a number nor a date",
        ),
        ("dates.csv", "4,2005-12-02", "4,", "dates.csv, line 2: the when is empty"),
        ("fractions.csv", f"{SECOND}.5", "nan", "line 2: when 'nan' is neither a number nor a date"),
        (
            "ours.inter",
            f"{SECOND}.5",
            "1e400",
            "line 2: timestamp:float '1e400' is neither a number nor a date",
        ),
        (
            "combined_data_1.txt",
            "2005-12-02",
            "soon",
            "line 2: date 'soon' is neither a number",
        ),
    ],
)
def test_a_time_that_is_none_is_named_by_its_line(
    name: str, was: str, wrong: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(FILES[name].replace(was, wrong))

    with pytest.raises(InputError) as told:
        read(tmp_path / name)

    assert said in str(told.value)


def test_formats_and_tables_that_do_not_say_when_are_refused_before_they_are_read(tmp_path: Path) -> None:
    plays, table = tmp_path / "train_triplets.txt", tmp_path / "r.csv"
    plays.write_text(f"{'b' * 40}\tSOAKIMP12A8C130995\t1\n")
    table.write_text(DATES)

    with pytest.raises(InputError, match="files in format msd do not say when anything was rated"):
        load_ratings(plays, times=True)
    with pytest.raises(InputError, match=r"r.csv: which column says when\? Name it: --columns time=NAME"):
        load_ratings(table, rating_range=(1, 5), times=True)
    with pytest.raises(InputError, match="no column 'then' for the time"):
        load_ratings(table, rating_range=(1, 5), columns=ColumnMapping(time="then"), times=True)
    with pytest.raises(InputError, match="made-up ratings have no times"):
        load_ratings("synthetic", times=True)
