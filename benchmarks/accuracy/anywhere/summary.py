"""What the cells say together: ratios to the floor, wins and losses, one table for each kind of feedback."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NO_PRIVACY = "inf"
"""Stands for the epsilon of what is trained without privacy."""
FLOORS = {
    "explicit": ("mean-private", "item-mean-private", "bias-private"),
    "implicit": ("popularity-private",),
}
"""Simple private models, at the same epsilon and delta."""
KEYS = {"explicit": "rmse", "implicit": "recall"}
_Lines = Sequence[Mapping[str, Any]]
Nested = dict[str, dict[str, dict[str, float]]]


def summary(lines: _Lines, *, method: Mapping[str, str], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of the benchmark; see ``anywhere.py`` for what each number is.

    Args:
        lines: what the cells gave.
        method: kind of feedback -> the method that is judged.
        asked: what was run.
    """
    done = [line for line in lines if line["error"] is None]
    found: dict[str, Any] = {"sets": _shapes(done)}
    for feedback, key in KEYS.items():
        own = [line for line in done if line["feedback"] == feedback]
        found[key] = _nested(own, statistics.fmean)
        found[f"{key}_std"] = _nested(own, _spread)
    return {
        **judged(found, method),
        **found,
        "failed": [dict(line) for line in lines if line["error"] is not None],
        "seconds": sum(float(line["seconds"]) for line in lines),
        "asked": dict(asked),
    }


def judged(found: Mapping[str, Any], method: Mapping[str, str]) -> dict[str, Any]:
    """How the method compares, from the errors alone.

    Args:
        found: ``rmse`` and ``recall``, by set, algorithm and epsilon.
        method: kind of feedback -> the method that is judged.
    """
    ratings = compared(found["rmse"], method["explicit"], FLOORS["explicit"], higher=False)
    lists = compared(found["recall"], method["implicit"], FLOORS["implicit"], higher=True)
    return {
        "worst_ratio_to_floor": max((entry["ratio"] for entry in ratings), default=None),
        "wins_over_floor": sum(entry["ratio"] < 1 for entry in ratings),
        "losses_to_floor": sum(entry["ratio"] > 1 for entry in ratings),
        "comparisons_with_floor": len(ratings),
        "worst_ratio_to_popularity": max((entry["ratio"] for entry in lists), default=None),
        "wins_over_popularity": sum(entry["ratio"] < 1 for entry in lists),
        "comparisons_with_popularity": len(lists),
        "ratios": ratings,
        "ratios_of_lists": lists,
        "against": {
            feedback: _against(found[key], method[feedback], higher=feedback == "implicit")
            for feedback, key in KEYS.items()
        },
    }


def with_part(kept: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """What a whole call found, with the numbers of a later call for some algorithms in their place; judged anew.

    Right where the code of these algorithms alone has changed. ``seconds`` stay those of the whole call.

    Args:
        kept: the JSON object of a whole call.
        part: that of a call for some of its sets, algorithms and epsilons, with the same seeds.

    Raises:
        ValueError: other seeds, or a number that the whole call does not have.
    """
    if part["asked"]["seeds"] != kept["asked"]["seeds"]:
        raise ValueError(f"seeds {part['asked']['seeds']}, and {kept['asked']['seeds']} are kept")
    found: dict[str, Any] = {}
    for key in (name for own in KEYS.values() for name in (own, f"{own}_std")):
        found[key] = {
            name: {algorithm: dict(row) for algorithm, row in of_set.items()}
            for name, of_set in kept[key].items()
        }
        for name, of_set in part[key].items():
            for algorithm, row in of_set.items():
                unknown = row.keys() - found[key].get(name, {}).get(algorithm, {}).keys()
                if unknown:
                    raise ValueError(f"{name}, {algorithm}, epsilon {min(unknown)}: not in what is kept")
                found[key][name][algorithm] |= row
    return {**kept, **judged(found, part["asked"]["method"]), **found}


def compared(values: Nested, method: str, floors: Iterable[str], *, higher: bool) -> list[dict[str, Any]]:
    """Of each set and epsilon, the method's value over that of the best floor; above 1 is a loss."""
    found = []
    for name, of_set in values.items():
        for epsilon, value in of_set.get(method, {}).items():
            rivals = {floor: of_set[floor][epsilon] for floor in floors if epsilon in of_set.get(floor, {})}
            if not rivals:
                continue
            best = (max if higher else min)(rivals, key=lambda floor: rivals[floor])
            ratio = _ratio(value, rivals[best], higher=higher)
            found.append({"set": name, "epsilon": epsilon, "floor": best, "ratio": ratio})
    return found


def _ratio(value: float, rival: float, *, higher: bool) -> float:
    if not higher:
        return value / rival
    return rival / value if value > 0 else float(rival > 0) * 1e9 + 1.0


def _against(values: Nested, method: str, *, higher: bool) -> dict[str, dict[str, int]]:
    """Of every other private algorithm: how often the method is better, and how often worse."""
    others = {name for of_set in values.values() for name in of_set} - {method}
    found = {}
    for other in sorted(others):
        ratios = [entry["ratio"] for entry in compared(values, method, (other,), higher=higher)]
        if ratios:
            found[other] = {
                "wins": sum(ratio < 1 for ratio in ratios),
                "losses": sum(ratio > 1 for ratio in ratios),
            }
    return found


def _nested(lines: _Lines, make: Any) -> Nested:
    """Set -> algorithm -> epsilon -> what ``make`` says of the values of its seeds."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for line in lines:
        epsilon = NO_PRIVACY if line["epsilon"] is None else f"{line['epsilon']:g}"
        groups.setdefault((line["set"], line["algorithm"], epsilon), []).append(float(line["value"]))
    nested: Nested = {}
    for (name, algorithm, epsilon), group in groups.items():
        nested.setdefault(name, {}).setdefault(algorithm, {})[epsilon] = make(group)
    return nested


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _shapes(lines: _Lines) -> dict[str, dict[str, Any]]:
    """Of each set: users who learn, items, training ratings, ratings a user; by kind of feedback."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        shape = {name: line[name] for name in ("users", "items", "ratings")}
        shape["ratings_per_user"] = round(line["ratings"] / max(line["users"], 1), 2)
        found.setdefault(line["set"], {})[line["feedback"]] = shape
    return found


def table(found: Mapping[str, Any], feedback: str) -> str:
    """Markdown: a row per set and algorithm, a column per epsilon, mean and spread; empty without results."""
    means, spreads = found[KEYS[feedback]], found[f"{KEYS[feedback]}_std"]
    epsilons = sorted(
        {epsilon for of_set in means.values() for row in of_set.values() for epsilon in row}, key=float
    )
    if not means:
        return ""
    named = ["no privacy" if epsilon == NO_PRIVACY else f"epsilon {epsilon}" for epsilon in epsilons]
    rows = [["set", "algorithm", *named], ["---"] * (2 + len(epsilons))]
    for name, of_set in means.items():
        best = _best(of_set, epsilons, higher=feedback == "implicit")
        for algorithm, row in of_set.items():
            cells = []
            for epsilon in epsilons:
                text = ""
                if epsilon in row:
                    text = f"{row[epsilon]:.4f} ({spreads[name][algorithm][epsilon]:.4f})"
                    text = f"**{text}**" if best.get(epsilon) == algorithm else text
                cells.append(text)
            rows.append([name, algorithm, *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _best(
    of_set: Mapping[str, Mapping[str, float]], epsilons: Sequence[str], *, higher: bool
) -> dict[str, str]:
    best = {}
    for epsilon in epsilons:
        values = {name: row[epsilon] for name, row in of_set.items() if epsilon in row}
        if values:
            best[epsilon] = (max if higher else min)(values, key=lambda name: values[name])
    return best


def verdict(found: Mapping[str, Any], method: Mapping[str, str]) -> str:
    """The numbers that judge, in words."""
    said = []
    if found["worst_ratio_to_floor"] is not None:
        worst = max(found["ratios"], key=lambda entry: entry["ratio"])
        said.append(
            f"{method['explicit']}: better than the best floor in {found['wins_over_floor']} of "
            f"{found['comparisons_with_floor']}; worst ratio {worst['ratio']:.4f} ({worst['set']}, epsilon "
            f"{worst['epsilon']}, {worst['floor']})"
        )
    if found["worst_ratio_to_popularity"] is not None:
        worst = max(found["ratios_of_lists"], key=lambda entry: entry["ratio"])
        said.append(
            f"{method['implicit']}: better than private popularity in {found['wins_over_popularity']} of "
            f"{found['comparisons_with_popularity']}; worst ratio {worst['ratio']:.4f} ({worst['set']}, epsilon "
            f"{worst['epsilon']})"
        )
    for feedback, rivals in found["against"].items():
        counted = [f"{name} {count['wins']}:{count['losses']}" for name, count in rivals.items()]
        if counted:
            said.append(f"{method[feedback]} wins and losses ({feedback}): {', '.join(counted)}")
    return "\n".join(said)
