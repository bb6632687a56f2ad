"""Figures as SVG text: no pyplot, no references outside, nothing left behind."""

import subprocess
import sys

import numpy as np
import pytest

from fedboard.simulations.drawing.svg import (
    SERIES,
    LineEnd,
    house_style,
    label_line_ends,
    new_figure,
    spread_apart,
    to_svg,
)


def test_pushing_apart_keeps_order_and_distance() -> None:
    positions = np.random.default_rng(1).uniform(0, 1, 12)

    placed = np.array(spread_apart(positions, 0.07))

    assert np.argsort(placed).tolist() == np.argsort(positions).tolist()
    assert np.diff(np.sort(placed)).min() >= 0.07 - 1e-12


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


@pytest.mark.slow
def test_reports_never_load_pyplot() -> None:
    code = "import sys, fedboard.simulations.report; print('matplotlib.pyplot' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "False"
