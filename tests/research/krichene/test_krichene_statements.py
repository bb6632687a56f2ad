"""Theorem 4.3, tables 1 and 2, and figures with several data sets: against sums written down by hand."""

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.data import SyntheticConfig
from fedboard.simulations.sections import DataConfig
from research.krichene import benchmarks, improvement, statistics
from research.krichene.regression import Sizes
from research.shared.data_sets import distinct
from research.shared.drawing import house_style
from research.shared.experiment import Setting
from tests.pictures import leave_out
from tests.research.few_ratings import setting_of

ROWS = {
    # user: her items and ratings
    "a": {"x": 5, "y": 4, "z": 4, "w": 5, "v": 4},
    "b": {"x": 5, "y": 4, "z": 1},
    "c": {"x": 4},
    "d": {"x": 2, "v": 5},
}


def written(folder: Path, name: str, rows: dict[str, dict[str, int]]) -> DataConfig:
    place = folder / f"{name}.npz"
    items = sorted({item for own in rows.values() for item in own})
    triples = [(u, items.index(i), stars) for u, own in enumerate(rows.values()) for i, stars in own.items()]
    user, item, rating = (np.array(column, dtype=np.int32) for column in zip(*triples, strict=True))
    np.savez(place, user=user, item=item, rating=rating.astype(np.float32), item_id=np.arange(len(items)))
    return DataConfig(source=str(place))


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    (tmp_path / "scratch").mkdir()
    more = {user: {item: stars for item, stars in own.items() if item != "v"} for user, own in ROWS.items()}
    return Setting(
        data=written(tmp_path, "small", ROWS),
        more_data=(written(tmp_path, "smaller", more),),
        seeds=1,
        scratch=tmp_path / "scratch",
        on_progress=lambda phase, done, total: None,
    )


def test_the_ratios_of_theorem_4_3_are_those_of_sums_by_hand() -> None:
    users = np.repeat([0, 1, 2, 3], [4, 2, 1, 1])
    items = np.array([0, 1, 2, 4, 0, 1, 0, 0])  # nobody has item 3
    n = {0: 4, 1: 2, 2: 1, 4: 1}
    owned = ((0, 1, 2, 4), (0, 1), (0,), (0,))

    found = improvement.ratios(users, items)

    m, total = len(n), sum(n.values())
    assert found["R0"]["theorem"] == pytest.approx(sqrt(m * total) / sum(sqrt(c) for c in n.values()))
    assert found["R1"]["theorem"] == pytest.approx(
        float(sum(Fraction(1, c) for c in n.values()) * total / m**2)
    )
    # No clipping: weights 1/sqrt n scaled until user 0, who spends most either way, spends 1.
    spends = sum(Fraction(1, n[i]) for i in owned[0])
    assert found["R1"]["every user"] == pytest.approx(
        float(sum(Fraction(1, c) for c in n.values()) * len(owned[0]) / (m * spends))
    )
    # Each user spends all she has: what an item gets is the sum over its users.
    for name, power in (("R0", 1 / 2), ("R1", 1)):
        gamma = 0 if name == "R0" else 1
        plain, ours = (
            sum(
                c ** (2 - gamma)
                / sum(n[i] ** e / sqrt(sum(n[o] ** (2 * e) for o in own)) for own in owned if i in own) ** 2
                for i, c in n.items()
            )
            for e in (0.0, -(1 + gamma) / 4)
        )
        assert found[name]["own share"] == pytest.approx((plain / ours) ** power)


def test_equal_tasks_gain_nothing_and_the_extreme_case_is_not_what_the_paper_says() -> None:
    users, items = np.divmod(np.arange(60), 6)
    assert all(
        value == pytest.approx(1.0)
        for of in improvement.ratios(users, items).values()
        for value in of.values()
    )

    # Cauchy-Schwarz the other way round: sum n <= (sum sqrt n)^2, so R0 <= sqrt m whatever nu is.
    m = 10_000
    r0, r1 = improvement.formula(np.append(np.ones(m - 1), float(m) ** 3))
    assert 0.9 * sqrt(m) < r0 <= sqrt(m) < 0.02 * m
    assert r1 == pytest.approx(m**2, rel=0.01)


def test_the_family_goes_to_the_moments_of_its_density(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Moments of a x^(a - 1) by the midpoint rule instead of in closed form.
    x = (np.arange(200_000) + 0.5) / 200_000
    mean, root, inverse = (float(np.mean(2 * x * x**power)) for power in (1, 0.5, -1))
    assert improvement.of_infinitely_many(2.0) == pytest.approx((sqrt(mean) / root, mean * inverse), rel=1e-4)
    assert improvement.of_infinitely_many(1.0)[1] == np.inf

    monkeypatch.setattr(improvement, "SKEWS", (1.0, 3.0))
    with house_style():
        found = improvement.theorem_4_3(setting, sizes=Sizes(n_tasks=60, n_users=800, tasks_per_user=6))
    own = found.numbers["family"]["3"]
    assert own["R0 theorem"] == pytest.approx(own["R0 limit"], rel=0.03)
    assert own["R1 theorem"] == pytest.approx(own["R1 limit"], rel=0.1)
    assert found.numbers["family"]["1"]["R1 theorem"] > own["R1 theorem"]
    assert set(found.numbers["data_sets"]) == {"small", "smaller"}
    assert set(found.figures) == {"theorem-4-3"}


def test_table_1_counts_ratings_and_positives_of_each_data_set(setting: Setting) -> None:
    table = statistics.table_1(setting)
    with house_style():
        skew = statistics.task_skew(replace(setting, more_data=(setting.data,)))  # type: ignore[arg-type]

    found = table.numbers["statistics"]
    ratings, positives = found["small, ratings"], found["small, positives"]
    assert (ratings["users"], ratings["items"], ratings["observations"]) == (4, 5, 11)
    assert ratings["density"] == pytest.approx(11 / 20)
    # Only user a has five ratings above 3.5.
    assert (positives["users"], positives["items"], positives["observations"]) == (1, 5, 5)
    assert positives["Gini of items"] == pytest.approx(0.0)
    # Item counts 4, 2, 2, 2, 1: mean absolute difference over twice the mean.
    counts = [4, 2, 2, 2, 1]
    differences = sum(abs(a - b) for a in counts for b in counts)
    assert ratings["Gini of items"] == pytest.approx(differences / (2 * 25 * 11 / 5))
    assert "1, 5, 5, of which" in table.comparison
    assert list(found) == ["small, ratings", "small, positives", "smaller, ratings"]
    assert list(skew.numbers["curve"]) == ["small (1)", "small (2)"]
    with pytest.raises(InputError, match="smaller: nobody has 5 ratings above"):
        statistics.task_skew(setting)


def test_names_that_come_again_are_numbered() -> None:
    assert distinct(["a", "b", "a"]) == ["a (1)", "b", "a (2)"]


@pytest.mark.slow
def test_a_board_of_lists_promises_a_delta_of_one_over_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(monkeypatch)
    people = SyntheticConfig(n_users=150, n_items=30, mean_ratings_per_user=10)
    bench = benchmarks.Benchmark(setting_of(tmp_path, people), Feedback.IMPLICIT)
    method = benchmarks.with_exponent(benchmarks.GRADIENTS[0], 0.5)
    bench.ask((method,), (5.0,))
    board = bench.board(method, 5.0, 0)

    assert board.config["weight_exponent"] == 0.5
    assert board.certificate is not None
    assert board.certificate["claim"]["delta"] == pytest.approx(1 / 150)
