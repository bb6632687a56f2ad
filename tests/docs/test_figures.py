"""Headline figures are those that a named command printed: its numbers are kept in ``docs/results``."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ACCURACY = (ROOT / "docs" / "guide" / "accuracy.md").read_text(encoding="utf-8")
AUDIT = (ROOT / "docs" / "guide" / "audit.md").read_text(encoding="utf-8")
EPSILONS = ("0.5", "1", "5", "20")
FLOORS = ("mean-private", "item-mean-private", "bias-private")
NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)?(?: \d{3})*(?![\w-])")


def kept(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text("utf-8"))
    return found


def best(errors: dict[str, dict[str, float]], epsilon: str, *starts: str) -> float:
    """The smallest error of the algorithms whose names begin so."""
    return min(values[epsilon] for name, values in errors.items() if name.startswith(starts))


def rows_of(errors: dict[str, dict[str, float]]) -> dict[str, list[float]]:
    """What the tables show of one set: the method, the best floor, the best AdaDPALS, the best without privacy."""
    return {
        "residual": [errors["residual"][epsilon] for epsilon in EPSILONS],
        "floor": [best(errors, epsilon, *FLOORS) for epsilon in EPSILONS],
        "adadpals": [best(errors, epsilon, "adadpals") for epsilon in EPSILONS],
        "none": [min(values["inf"] for values in errors.values() if "inf" in values)],
    }


def of_anywhere() -> set[str]:
    """What may be said of the sets of all shapes: the errors on MovieLens 1M, and who won how often."""
    numbers = kept("anywhere")["numbers"]
    shown = rows_of(numbers["rmse"]["ml-1m"])
    said = {f"{value:.3f}" for values in shown.values() for value in values}
    adadpals = [won for name, won in numbers["against"]["explicit"].items() if name.startswith("adadpals")]
    said |= {str(min(won["wins"] for won in adadpals)), str(numbers["comparisons_with_floor"])}
    users = numbers["sets"]["ml-1m"]["explicit"]["users"]
    return said | {str(numbers["wins_over_floor"]), f"{users:,}".replace(",", " "), *EPSILONS}


def of_round() -> set[str]:
    """CPU time of a private round, how much that is of an epoch without privacy, and how large it is."""
    told = kept("round")
    figures = {f"{told['numbers'][name]:.1f}" for name in ("cpu_seconds.d64", "private_over_nonprivate.d64")}
    return {*figures, "64", "10", *re.findall(r"\d+ 000", told["on"])}


def of_audit() -> set[str]:
    """Shares of the claim that were shown, for the default algorithm."""
    runs = kept("audit")["numbers"]["runs"]
    shares = [100 * run["share"] for run in runs if run["algorithm"] == "residual"]
    seeds = {len(run["lower_bounds"]) for run in runs}
    return {f"{min(shares):.0f}", f"{max(shares):.0f}", *map(str, seeds), *EPSILONS}


SAID = {"anywhere": of_anywhere, "round": of_round, "audit": of_audit}


def marked() -> dict[str, str]:
    """The README's paragraphs with figures, by what they are of."""
    bullets = re.findall(r"- \*\*(?:(?!\n- \*\*|\n\n).)*<!-- figures: \w+ -->", README, re.DOTALL)
    return {re.findall(r"figures: (\w+)", bullet)[0]: bullet for bullet in bullets}


@pytest.mark.parametrize("name", SAID)
def test_figures_of_the_readme_are_those_that_are_kept(name: str) -> None:
    said = re.sub(r"`[^`]*`|\([^)]*\.md[^)]*\)|<!--.*?-->|MovieLens 1M", "", marked()[name])

    found = {number.strip() for number in NUMBER.findall(said)}

    assert len(found) >= 3
    assert sorted(found - SAID[name]()) == []


def test_the_readme_has_no_other_figures() -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    for bullet in marked().values():
        prose = prose.replace(bullet, "")
    prose = re.sub(r"\]\([^)]*\)|`[^`]*`", "", prose)

    assert re.findall(r"[\d.]+ ?%|\d+\.\d+", prose) == ["3.11", "3.13", "2.0"]


def test_every_kept_result_says_what_printed_it_on_what_and_what_was_tuned() -> None:
    names = {path.stem for path in (ROOT / "docs" / "results").glob("*.json")}

    assert names == set(SAID)
    for name in names:
        told = kept(name)
        assert all(told[key] for key in ("command", "on", "tuned", "simulated", "stored", "numbers"))
        assert "imulated" in marked()[name] or "made-up" in marked()[name].lower()


def test_the_table_of_all_sets_is_what_the_benchmark_wrote() -> None:
    numbers = kept("anywhere")["numbers"]
    table = ACCURACY.split("## On sets of all shapes")[1].split("```bash")[0]
    shown = {name: rows_of(errors) for name, errors in numbers["rmse"].items()}
    expected = []
    for name, rows in shown.items():
        cells = [
            f"**{own:.4f}**" if own < floor else f"{own:.4f}"
            for own, floor in zip(rows["residual"], rows["floor"], strict=True)
        ]
        expected += [
            f"| {name}: `residual` | {' | '.join(cells)} | {rows['none'][0]:.4f} |",
            f"| best floor | {' | '.join(f'{value:.4f}' for value in rows['floor'])} | |",
            f"| best AdaDPALS | {' | '.join(f'{value:.4f}' for value in rows['adadpals'])} | |",
        ]

    found = [line for line in table.splitlines() if line.startswith("| ")][1:]

    assert found == expected
    assert f"{numbers['wins_over_floor']} of {numbers['comparisons_with_floor']}" in table
    made_up = [one["ratio"] for one in numbers["ratios"] if one["set"].startswith("synthetic")]
    real = [one["ratio"] for one in numbers["ratios"] if not one["set"].startswith("synthetic")]
    assert f"{max(real):.4f} on the real sets, {max(made_up):.4f} on made-up users" in table


def test_the_table_of_audits_is_what_they_found() -> None:
    rows = [line.split(" | ") for line in AUDIT.splitlines() if line.startswith("| residual | ")]
    found = {row[1]: row[4] for row in rows}

    expected = {}
    for run in kept("audit")["numbers"]["runs"]:
        numbers = (run["median"], min(run["lower_bounds"]), max(run["lower_bounds"]))
        median, least, most = (f"{number:.{1 if number > 10 else 2}f}" for number in numbers)
        expected[f"{run['epsilon_claimed']:g}"] = f"{median} ({least}, {most})"
    assert found == expected


TABLES = re.compile(r"^\|[^\n]*(?:RMSE|[Rr]ecall)[^\n]*\n\|[-|]+\|$", re.MULTILINE)
OTHERS = {"docs/guide/floors.md", "docs/guide/features.md", "docs/guide/topk.md"}
"""Whose tables say in the sentence above them what is measured."""


def with_errors() -> dict[str, str]:
    """The pages with tables of errors, their text without code."""
    found = {}
    for path in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        name = path.relative_to(ROOT).as_posix()
        if "decisions" not in path.parts and (name in OTHERS or TABLES.search(text)):
            found[name] = text
    return found


def test_who_shows_errors_says_that_they_are_simulated_and_what_was_tuned_on_what() -> None:
    pages = with_errors()

    assert {"docs/guide/accuracy.md", "docs/guide/protocols.md", *OTHERS} <= pages.keys()
    assert [name for name, text in pages.items() if not re.search(r"[Ss]imulation|simulated", text)] == []
    assert [
        name for name, text in pages.items() if not re.search(r"tuned|[Tt]uning|chosen on|picked on", text)
    ] == []


SIZING = {
    "10^6 phones": "--users 1e6 --hours 1",
    "10^6 behind 100 gateways of 10 000": "--users 1e6 --users-per-node 10000 --hours 1",
    "10^5 phones, drawn out of 10^8": "--users 1e5 --hours 4",
    "10^8 behind 10 000 gateways of 10 000": "--users 1e8 --users-per-node 10000 --hours 4",
    "10^8 phones": "--users 1e8 --hours 24",
}


@pytest.mark.parametrize("row", SIZING)
def test_the_table_of_sizes_is_what_its_command_prints(row: str) -> None:
    page = (ROOT / "docs" / "guide" / "sizing.md").read_text(encoding="utf-8")
    (cells,) = re.findall(rf"^\| {re.escape(row)} \| (.* cores) \|$", page, re.MULTILINE)
    words = f"size --items 20000 --rank 32 {SIZING[row]}"
    printed = CliRunner().invoke(commands, words.split(), catch_exceptions=False).output
    told = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in printed.splitlines())
    form = told["the smaller form"]
    sent = told["a node sends as rows" if form == "factored" else "a node sends as sums"]
    over = re.search(r"over (\d+ h) +(\S+ Mbit/s) out, .* in, (.* cores)", printed)
    assert over is not None

    assert cells.split(" | ") == [
        told["a node gets"],
        f"{sent} ({form})",
        f"{told['the server gets']}, {told['the server sends']}",
        told["a node computes"],
        f"{told['the training computes']} ({told['and holds']})",
        told["carrying it (SuperLink, proxy)"],
        f"{over[1]}: {over[2]}, {over[3]}",
    ]


def test_the_check_of_wheels_names_what_a_device_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "guide" / "device.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"^pip install --dry-run (.*?)```", page, re.MULTILINE | re.DOTALL)

    needed = {*project["dependencies"], *project["optional-dependencies"]["device"]}
    assert set(re.findall(r"'(.*?)'", named)) == needed


def test_a_decision_names_files_that_are_there() -> None:
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        for name in re.findall(
            r"`((?:api|cli|client|common|server|simulations)/[\w/]+\.\w+)`", page.read_text("utf-8")
        ):
            assert (ROOT / name).is_file(), (page.name, name)
