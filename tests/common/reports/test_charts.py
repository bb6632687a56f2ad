"""Charts: ticks at round numbers, all within the drawing, nothing of others taken for markup."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.reports.charts import Chart, Line, Scale, chart, ticks


def drawn(*lines: Line, x: Scale | None = None, y: Scale | None = None) -> Chart:
    scales = (x or Scale(label="board"), y or Scale(label="RMSE"))
    return chart(lines, slug="c", title="A <b>", reading='"1" & 2', held_out=False, x=scales[0], y=scales[1])


@given(st.floats(-1e4, 1e4), st.floats(1e-2, 1e8))
def test_ticks_are_few_and_round_and_within_the_range(low: float, width: float) -> None:
    found = ticks(low, low + width)

    assert len(found) <= 7
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) + 1e-9 for tick in found)
    steps = {f"{later - earlier:.3e}" for earlier, later in pairwise(found)}
    assert {step[0] for step in steps} <= {"1", "2", "5"}
    assert {step[1:5] for step in steps} <= {".000"}


@pytest.mark.parametrize(
    ("low", "high", "whole", "expected"),
    [
        (0, 5, False, [0, 1, 2, 3, 4, 5]),
        (0.93, 1.31, False, [1.0, 1.1, 1.2, 1.3]),
        (1, 3, True, [1, 2, 3]),
        (0, 400, True, [0, 100, 200, 300, 400]),
        (2, 2, True, [2]),
    ],
)
def test_ticks_of_usual_ranges(low: float, high: float, whole: bool, expected: list[float]) -> None:
    assert ticks(low, high, whole=whole) == expected


@pytest.mark.parametrize(
    ("line", "x", "y"),
    [
        (Line(name="one", points=[(1, 0.5)]), Scale(label="board"), Scale(label="RMSE")),
        (
            Line(name="flat", points=[(1, 2), (2, 2)]),
            Scale(label="board", whole=True),
            Scale(label="x", zero=True),
        ),
        (Line(name="far", points=[(1, 3), (2, 5e8)]), Scale(label="board"), Scale(label="bytes", base=4.0)),
        (
            Line(name="bins", points=[(1, 3), (10, 5), (99, 0)], stairs=True),
            Scale(label="n", base=10.0),
            Scale(label="%"),
        ),
        (
            Line(name="named", points=[(0, 3), (2, 5)]),
            Scale(label="b", names=["a\n1", "b", "c"]),
            Scale(label="%"),
        ),
        (Line(name="long", points=[(k, k % 7) for k in range(500)]), Scale(label="b"), Scale(label="y")),
    ],
)
def test_all_is_within_the_drawing(line: Line, x: Scale, y: Scale) -> None:
    root = ElementTree.fromstring(
        drawn(line, Line(name="level", points=[(0, line.points[0][1])], level=True), x=x, y=y).svg
    )

    width, height = map(float, root.attrib["viewBox"].split()[2:])
    places = [(float(one.attrib["x"]), float(one.attrib["y"])) for one in root.iter("text")]
    for path in root.iter("path"):
        places += [
            (float(a), float(b)) for a, b in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"])
        ]
    assert places
    assert all(0 <= a <= width and 0 <= b <= height for a, b in places)


def test_names_of_others_are_text_and_every_number_is_in_the_table() -> None:
    found = drawn(Line(name="<script>", points=[(1, 0.25), (2, 0.5)]), Line(name="b", points=[(2, 1.0)]))

    assert "<b>" not in found.svg
    assert ElementTree.fromstring(found.svg).attrib["aria-label"] == 'A <b>. "1" & 2'
    assert found.table.headers == ("Board", "<script>", "b")
    assert found.table.rows == (("1", "0.2500", "–"), ("2", "0.5000", "1.0000"))
    assert found.key == (("s0", "<script>"), ("s1", "b"))


def test_lines_that_cannot_be_told_apart_are_in_the_table_alone() -> None:
    found = drawn(*(Line(name=f"line {k}", points=[(1, k)]) for k in range(9)))

    assert (len(found.key), len(found.table.headers)) == (6, 10)
