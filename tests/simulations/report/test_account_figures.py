"""The privacy curve as a picture."""

from itertools import pairwise
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.simulations.report.account_figures import account_curves, write_account_figure
from tests.common.privacy.exact_curves import gaussian, sampled

pytestmark = pytest.mark.slow

DELTAS = (1e-8, 1e-5, 1e-3)


def test_curves_are_those_of_the_accountants_and_in_order() -> None:
    curves = account_curves([gaussian(4.0)], DELTAS)

    assert [curve.label for curve in curves] == ["exact", "loss distributions", "Renyi orders", "zCDP"]
    assert curves[0].epsilons == tuple(epsilon_of(delta, mu=0.25) for delta in DELTAS)
    assert curves[1].epsilons == pytest.approx(curves[0].epsilons, rel=1e-5)
    for tight, loose in pairwise(curves[1:]):
        assert all(a < b for a, b in zip(tight.epsilons, loose.epsilons, strict=True))


def test_no_curve_of_a_sampled_run_is_called_exact() -> None:
    events = [sampled(1.0, probability=0.01)]
    labels = [curve.label for curve in account_curves(events, DELTAS)]

    assert labels == ["loss distributions", "Renyi orders", "mu-GDP bound", "zCDP bound"]
    budget = Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    kept = account_curves(events, DELTAS, budget=budget)
    assert [curve.label for curve in kept] == ["the budget", "Renyi orders", "zCDP bound"]
    assert kept[0].epsilons == tuple(max(2.0, epsilon_of(d, mu=mu_for(2.0, 1e-5))) for d in DELTAS)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_a_picture_is_written_in_the_wanted_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"curve{suffix}"

    write_account_figure([gaussian(4.0)], path, delta=1e-5)

    start = path.read_bytes()[:200]
    assert {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix] in start + path.read_bytes()[:2000]


def test_curves_that_are_far_apart_get_a_logarithmic_axis(tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"

    write_account_figure([sampled(1.0, probability=0.001)], path, delta=1e-5)

    text = path.read_text()
    assert "loss distributions" in text
    assert "mathdefault" not in text


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one of \.svg, \.png, \.pdf"):
        write_account_figure([gaussian(4.0)], tmp_path / "curve.gif", delta=1e-5)
    with pytest.raises(InputError, match="no release to draw"):
        write_account_figure([], tmp_path / "curve.svg", delta=1e-5)
    with pytest.raises(InputError, match="folder does not exist"):
        write_account_figure([gaussian(4.0)], tmp_path / "missing" / "curve.svg", delta=1e-5)
