"""Figures as SVG text: no pyplot, no references outside, nothing left behind."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from fedboard.simulations.drawing.svg import (
    SERIES,
    LineEnd,
    house_style,
    label_line_ends,
    new_figure,
    settle,
    spread_apart,
    to_svg,
)


def test_labels_that_overlap_are_pushed_apart_around_their_middle() -> None:
    placed = spread_apart(np.array([0.50, 0.51, 0.10]), 0.1)

    assert placed == pytest.approx([0.455, 0.555, 0.10])


def test_pushing_apart_keeps_order_and_distance() -> None:
    positions = np.random.default_rng(1).uniform(0, 1, 12)

    placed = np.array(spread_apart(positions, 0.07))

    assert np.argsort(placed).tolist() == np.argsort(positions).tolist()
    assert np.diff(np.sort(placed)).min() >= 0.07 - 1e-12


def test_labels_that_fit_stay_where_they_are() -> None:
    assert spread_apart(np.array([0.9, 0.1]), 0.1) == pytest.approx([0.9, 0.1])


def test_a_dollar_sign_in_a_name_is_not_mathematics() -> None:
    with house_style():
        figure = new_figure(3, 2)
        axes = figure.add_subplot()
        axes.plot([0, 1], [1, 2], color=SERIES[1])
        label_line_ends(axes, [LineEnd(height=2, text="$x_1$ & <co>", colour=SERIES[1])])
        svg = to_svg(figure, slug="a", description='say "hi" & go')

    assert "$x_1$ &amp; &lt;co&gt;" in svg
    assert 'aria-label="say &quot;hi&quot; &amp; go"' in svg
    assert "var(--series-1, #c44e00)" in svg
    assert "http" not in svg
    assert 'id="a-figure_1"' in svg


def test_the_style_is_put_back_afterwards() -> None:
    before = dict(matplotlib.rcParams)

    with house_style():
        assert matplotlib.rcParams["svg.fonttype"] == "none"

    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_reports_never_load_pyplot() -> None:
    code = "import sys, fedboard.simulations.report; print('matplotlib.pyplot' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "False"


def panels(figure: Figure) -> list[Axes]:
    """Labels of all lengths, a title of two lines, and ends of lines that stand close together."""
    linear, logarithmic = figure.subplots(1, 2, width_ratios=(1.0, 1.4))
    for axes, values in ((linear, [0.1, 0.3, 0.25]), (logarithmic, [1e-5, 3.0, 7e4])):
        axes.plot([1, 2, 3], values)
        axes.set_xlabel("board")
        axes.set_ylabel("a metric\nof two lines")
    logarithmic.set_yscale("log")
    logarithmic.set_title("a title\nof two lines")
    ends = [
        LineEnd(height=height, text=text, colour=SERIES[0])
        for height, text in ((7e4, "up"), (6e4, "down here"))
    ]
    label_line_ends(logarithmic, ends)
    label_line_ends(linear, [LineEnd(height=0.25, text="this run", colour=SERIES[1])])
    settle(figure)
    return [linear, logarithmic]


def test_what_is_measured_once_lies_where_the_library_puts_it() -> None:
    with house_style():
        ours, theirs = new_figure(7, 3), Figure(figsize=(7, 3), layout="constrained")
        FigureCanvasSVG(theirs)
        pairs = list(zip(panels(ours), panels(theirs), strict=True))

    points = np.array([7, 3, 7, 3]) * 72
    for mine, others in pairs:
        apart = (mine.get_position().extents - others.get_position().extents) * points
        assert np.abs(apart).max() < 2.0


def test_a_thin_line_leads_from_each_end_to_its_label() -> None:
    with house_style():
        figure = new_figure(7, 3)
        _, axes = panels(figure)
    texts = {text.get_text(): text.get_window_extent() for text in axes.texts}
    leaders = [line for line in axes.lines if not line.get_in_layout()]

    assert len(leaders) == len(texts) == 2
    scale = figure.dpi / 72
    for leader, (end, label) in zip(leaders, ((7e4, "up"), (6e4, "down here")), strict=True):
        (first, low), (last, high) = leader.get_transform().transform(leader.get_xydata())
        start = axes.transData.transform((1.0, end))[1]
        assert (first - axes.bbox.x1) / scale == pytest.approx(2.0, abs=0.1)
        assert abs(low - start) / scale < 2.0
        assert 1.0 < (texts[label].x0 - last) / scale < 5.0
        assert texts[label].y0 < high < texts[label].y1
