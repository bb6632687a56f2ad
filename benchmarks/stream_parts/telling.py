"""What the runs of different sizes say together: lines, cost per user, and a figure."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FLAT_FROM = 1_000_000
"""Users from which on a user should cost the same: below, what is done once a round for all items is most of it."""


def costs(users: int, rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of rounds that one process went through as a whole; those that were gone on with count no CPU seconds."""
    whole = [line for line in rounds if line["whole"]]
    seconds = sum(line["cpu_seconds"] for line in whole)
    return {
        "rounds": len(rounds),
        "whole_rounds": len(whole),
        "ratings": max((line["ratings"] for line in rounds if line["ratings"]), default=None),
        "cpu_seconds": seconds,
        "cpu_seconds_of_users": sum(line["cpu_seconds_of_users"] for line in whole),
        "round_wall_seconds": sum(line["wall_seconds"] for line in rounds),
        "users_per_cpu_second": round(users * len(whole) / seconds) if seconds else None,
    }


def flatness(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Microseconds for a user and round in streamed runs from ``FLAT_FROM`` users on, over the rounds that each of
    them has as a whole, and over that of the smallest.
    """
    large = [line for line in lines if line["way"] == "streamed" and line["users"] >= FLAT_FROM]
    large = [line for line in large if any(told["whole"] for told in line["told"])]
    if not large:
        return []
    common = set.intersection(*({t["round"] for t in line["told"] if t["whole"]} for line in large))
    found: list[dict[str, Any]] = []
    for line in large:
        told = [t for t in line["told"] if t["round"] in common and t["whole"]]
        per_user = {
            name: 1e6 * sum(t[key] for t in told) / (len(told) * line["users"])
            for name, key in (("us_per_user", "cpu_seconds_of_users"), ("us_with_items", "cpu_seconds"))
            if told
        }
        first = found[0] if found else per_user
        over = {f"{name}_over_first": value / first[name] for name, value in per_user.items()}
        found.append({"users": line["users"], "rounds": sorted(common), **per_user, **over})
    return found


def said(line: Mapping[str, Any]) -> str:
    """One run in a line."""
    ratings = "" if line["ratings"] is None else f", {line['ratings']:,} training ratings"
    per_second = line["users_per_cpu_second"]
    return (
        f"{line['way']:>9} {line['users']:>11,} users{ratings}: {line['peak_memory_gb']:.2f} GB, "
        f"{line['round_wall_seconds']:.1f} s and {line['cpu_seconds']:.1f} CPU s in {line['rounds']} rounds, "
        f"{'?' if per_second is None else f'{per_second:,}'} users per CPU second"
        f"{'' if line['finished'] else '; not finished'}"
    )


def in_words(number: float) -> str:
    """A power of ten as people say it: letters stay letters in a drawing, where powers would be markup."""
    for least, word in ((1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if number >= least:
            return f"{number / least:g}{word}"
    return f"{number:g}"


def draw(lines: Sequence[Mapping[str, Any]], place: Path, *, mean: int) -> None:
    """Memory against the number of ratings."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    sys.path.append(str(Path(__file__).resolve().parents[2]))  # where `research` is
    from research.shared.drawing import house_style, new_figure, settle

    with house_style():
        figure = new_figure(7.0, 4.0)
        axes = figure.add_subplot()
        for way, mark in (("streamed", "o-"), ("in memory", "s--")):
            points = [(mean * line["users"], line["peak_memory_gb"]) for line in lines if line["way"] == way]
            if points:
                axes.plot(*zip(*points, strict=True), mark, label=way)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ratings, _: in_words(ratings)))
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("ratings")
        axes.set_ylabel("memory of all processes, GB")
        axes.legend()
        settle(figure)
        figure.savefig(place, facecolor="white", metadata={"Date": None})
