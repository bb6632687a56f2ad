"""A file of examples: what is written is read, whose is whose, and faults are named without a value."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.ratings.examples_file import (
    ExamplesFile,
    ExamplesTable,
    read_examples,
)
from fedboard.common.algorithms.supervised.examples import examples_of
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from tests.client.ratings.written import write_examples
from tests.common.algorithms.representation.conftest import catalogue, population, started_board

MANY = ExamplesTable(
    features=catalogue().item_ids, users=tuple(f"u{n:02}" for n in range(12)), examples=population()
)


def board_with(features: tuple[str, ...]) -> Board:
    return replace(started_board(), catalogue=replace(catalogue(), item_ids=features))


def test_many_people_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_examples(tmp_path / "many.csv", MANY)

    found = read_examples(tmp_path / "many.csv")

    silent = MANY.users[0]  # who has no example has no line
    assert found.features == MANY.features
    assert found.users == tuple(user for user in MANY.users if user != silent)
    np.testing.assert_array_equal(found.examples.features, MANY.examples.features)
    np.testing.assert_array_equal(found.examples.labels, MANY.examples.labels)
    np.testing.assert_array_equal(found.examples.indptr, MANY.examples.indptr[1:])


def test_lines_of_different_people_may_be_mixed(tmp_path: Path) -> None:
    (tmp_path / "mixed.csv").write_text("user,a,label\nx,1,10\ny,2,20\nx,3,30\n\n")

    found = read_examples(tmp_path / "mixed.csv")

    assert found.users == ("x", "y")
    assert found.examples.labels.tolist() == [10.0, 30.0, 20.0]
    assert found.examples.indptr.tolist() == [0, 2, 3]


def test_a_device_finds_features_by_name(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("b,label,a,more\n1,9,2,3\n")

    source = ExamplesFile.open(tmp_path / "own.csv", first_row=5)
    cohort = source.cohort(board_with(("a", "b")))

    assert (source.n_users, cohort.n_users, cohort.first_row, cohort.n_items) == (1, 1, 5, 2)
    assert examples_of(cohort).features.tolist() == [[2.0, 1.0]]
    assert examples_of(cohort).labels.tolist() == [9.0]
    with pytest.raises(InputError, match="has no feature 'c'"):
        source.cohort(board_with(("a", "c")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must name each column once"),
        ("a,b\n1,2\n", "must name each column once"),
        ("label,a,a\n1,2,3\n", "must name each column once"),
        ("label\n1\n", "at least one feature"),
        ("label,a,\n1,2,3\n", "each by a name"),
        ("label,a\n1\n", "line 2: the first line names 2 columns"),
        ("label,a\n1,2\n1,4711x\n", "line 3: features and label must be finite numbers"),
        ("label,a\n1,nan\n", "line 2: features and label must be finite"),
        ("label,a\n1,4711e300\n", "beyond what single precision holds"),
        ("user,label,a\n ,4711,2\n", "line 2: it does not say whose"),
    ],
)
def test_faults_are_named_and_no_number_is(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.csv").write_text(text)

    with pytest.raises(InputError, match=says) as refused:
        read_examples(tmp_path / "bad.csv")
    assert "4711" not in str(refused.value)


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no examples can be read there"):
        read_examples(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"label,a\n\xff,1\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_examples(tmp_path / "bytes.csv")
