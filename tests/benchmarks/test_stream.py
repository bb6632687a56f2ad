"""The streaming benchmark: a user's cost is of whole rounds, over the same ones; cut short, it goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from stream_parts import kept, telling

    return SimpleNamespace(kept=kept, telling=telling)


def told(number: int, seconds: float, *, whole: bool = True) -> dict[str, Any]:
    return {
        "round": number,
        "whole": whole,
        "cpu_seconds": seconds + 1.0,
        "cpu_seconds_of_users": seconds,
        "wall_seconds": seconds / 2,
        "ratings": 12_000_000,
    }


def test_a_round_that_was_gone_on_with_counts_no_cpu_seconds(parts: SimpleNamespace) -> None:
    found = parts.telling.costs(10**6, [told(0, 4.0), told(1, 0.5, whole=False), told(2, 6.0)])

    assert (found["rounds"], found["whole_rounds"]) == (3, 2)
    assert found["cpu_seconds_of_users"] == 10.0
    assert found["users_per_cpu_second"] == round(2e6 / 12.0)
    assert parts.telling.costs(10**6, [])["users_per_cpu_second"] is None


def test_what_a_user_costs_is_compared_over_rounds_that_every_size_has(parts: SimpleNamespace) -> None:
    small = {"users": 10**6, "way": "streamed", "told": [told(0, 2.0), told(1, 4.0), told(2, 99.0)]}
    large = {
        "users": 10**7,
        "way": "streamed",
        "told": [told(0, 22.0), told(1, 44.0), told(2, 1.0, whole=False)],
    }
    others = [{**small, "users": 10**5}, {**small, "way": "in memory"}, {**large, "told": []}]

    first, second = parts.telling.flatness([small, large, *others])

    assert (first["users"], second["users"]) == (10**6, 10**7)
    assert first["rounds"] == second["rounds"] == [0, 1]
    assert (first["us_per_user"], second["us_per_user"]) == pytest.approx((3.0, 3.3))
    assert first["us_with_items"] == pytest.approx(4.0)
    assert second["us_per_user_over_first"] == pytest.approx(1.1)
    assert parts.telling.flatness(others) == []


def test_what_was_found_is_kept_for_the_same_question_alone(parts: SimpleNamespace, tmp_path: Path) -> None:
    asked = {"algorithm": "residual", "rank": None}
    kept = parts.kept.Kept(tmp_path / "runs")
    kept.begin(asked)
    kept.tell("streamed-100", peak_memory_gb=0.5, bytes_read=7)
    kept.tell("streamed-100", peak_memory_gb=0.3, digest="d", finished=True)
    kept.record("streamed-100").write_text('{"round": 1, "n": 1}\n{"round": 0}\n{"round": 1, "n": 2}\n')

    again = parts.kept.Kept(tmp_path / "runs")
    again.begin(asked)

    assert again.of("streamed-100") == {
        "peak_memory_gb": 0.5,
        "bytes_read": 7,
        "digest": "d",
        "finished": True,
    }
    assert again.rounds("streamed-100") == [{"round": 0}, {"round": 1, "n": 2}]
    assert (again.of("streamed-1000"), again.rounds("streamed-1000")) == ({}, [])
    with pytest.raises(SystemExit, match="another benchmark"):
        again.begin({**asked, "rank": 4})


def test_sizes_are_drawn_in_words(parts: SimpleNamespace) -> None:
    sizes = [parts.telling.in_words(size) for size in (100.0, 1e4, 1e6, 1.5e9)]
    assert sizes == ["100", "10 thousand", "1 million", "1.5 billion"]
