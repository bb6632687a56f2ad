"""The page on people is what was printed, and says what was run."""

import json
import runpy
from pathlib import Path

import pytest

from fedboard.simulations.datasets.synthetic.people import people_config
from fedboard.simulations.datasets.synthetic.people.fitted import ML_1M

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "research" / "results" / "population.py"))
KEPT = ROOT / "research" / "results" / "population"


def test_the_page_is_what_would_be_written() -> None:
    page = (ROOT / "research" / "population.md").read_text(encoding="utf-8")

    assert page == SCRIPT["page"](), "run python research/results/population.py"


def test_the_curve_is_of_people_whom_anybody_can_make_again() -> None:
    curve = json.loads((KEPT / "curve.json").read_text(encoding="utf-8"))
    people = people_config(curve["settings"]["source"])

    assert people.users == curve["settings"]["people"][-1]
    assert set(curve["test RMSE, epsilon 0.1"]) == {f"{users:,}" for users in curve["settings"]["people"]}
    assert curve["settings"]["delta"] * people.users < 1


def test_the_people_beside_the_data_are_those_of_the_package() -> None:
    settings = json.loads((KEPT / "statistics.json").read_text(encoding="utf-8"))["settings"]
    committed = settings["shape, committed"]

    assert settings["data"] == "ml-1m"
    assert {name: getattr(ML_1M, name) for name in ("item_spread", "noise_spread", "drawn_to")} == {
        name: committed[name] for name in ("item_spread", "noise_spread", "drawn_to")
    }
    assert committed["taste_spreads"] == list(ML_1M.taste_spreads)


def test_a_table_has_a_line_for_each_row_and_a_gap_where_nothing_was_run() -> None:
    rows = {"10": {"a": 0.12345, "b": 1.0}, "20": {"a": None}}

    table = SCRIPT["table"](rows, "people", SCRIPT["four"])

    assert table.splitlines() == [
        "| people | a | b |",
        "| --- | --- | --- |",
        "| 10 | 0.1235 | 1 |",
        "| 20 |  |  |",
    ]


def test_the_page_says_where_the_runs_end_and_what_was_left_out_there() -> None:
    ten, hundred = {"people": [10**4, 10**7]}, {"people": [10**4, 10**8], "settled within": 0.001}

    assert "10 000 000 people** (the same command goes on" in SCRIPT["_ends"](ten)
    assert SCRIPT["_ends"](hundred) == "**The runs on this page end at 100 000 000 people**"
    assert SCRIPT["_missing"](ten) == ""
    assert "more\nthan 0.001 above" in SCRIPT["_missing"](hundred)


def test_seeds_are_told_by_how_many() -> None:
    told = SCRIPT["_seeds"]({"seeds": {"10,000": 2, "30,000": 2, "1,000,000": 1}})

    assert told == "2 for 10 000 and 30 000 people; 1 for 1 000 000 people"


@pytest.mark.parametrize("figure", ["curve", "statistics"])
def test_what_a_run_left_is_kept_whole(tmp_path: Path, figure: str) -> None:
    record = {
        **json.loads((KEPT / f"{figure}.json").read_text(encoding="utf-8")),
        "seconds": 1.0,
        "peak_mib": 2,
    }
    (tmp_path / "numbers.json").write_text(json.dumps(record))
    (tmp_path / "population-curve.svg").write_text("<svg/>")
    taking = runpy.run_path(str(ROOT / "research" / "results" / "population.py"))
    taking["take"].__globals__.update(KEPT=tmp_path, FIGURE=tmp_path / "figure.svg")

    taking["take"]([tmp_path])

    kept = json.loads((tmp_path / f"{figure}.json").read_text())
    assert kept == {name: value for name, value in record.items() if name not in ("seconds", "peak_mib")}
    assert (tmp_path / "figure.svg").exists() == (figure == "curve")
