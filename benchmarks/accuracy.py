"""Is the default method good on anybody's data? Sets of all shapes, with the floors that any method must beat.

usage: python benchmarks/accuracy.py [--data DIR] [--sets A,B] [--algorithms A,B] [--epsilon E,F] [--seeds S,T]
           [--out FOLDER] [--json FILE] [--jobs N]

DIR holds ``.npz`` sets (user, item, rating; of a pair that is there twice the last counts) and ``info.json``, which
says of each name: ``range`` [lowest, highest], ``delta``, ``items``, and ``note`` with the word implicit where
presence is all that is known. Beside them stand ml-1m, ml-100k, ml-latest-small and ml-1m-x12 where
``$FEDBOARD_DATA`` has them, and synthetic sets with 2, 20 and 200 ratings a user. A set may be named
``ml-1m:implicit`` for one way of judging alone, and any set of ratings of DIR so for lists.

Each set is a ``fedboard sweep``: complete simulations with ledger and certificate at the stated epsilon and the
set's delta, all on the same split. Every number is the mean over the seeds on held-out data: RMSE of
ratings in their own units (a tenth of the ratings held out), or Recall@20 of lists (a tenth of the users).

- ``rmse.<set>.<algorithm>.<epsilon>``, ``recall.<set>.<algorithm>.<epsilon>`` (``inf``: trained without privacy),
  and ``rmse_std``, ``recall_std`` over the seeds;
- ``worst_ratio_to_floor``: the largest, over sets with ratings and epsilons, of rmse(method) / min of rmse over
  ``mean-private`` (a private constant and the user's own bias), ``item-mean-private`` and ``bias-private``. The
  method is the default algorithm, or the one that ``--method`` names. Above 1 it loses somewhere;
- ``wins_over_floor`` of ``comparisons_with_floor``: in how many of those the ratio is below 1;
- ``worst_ratio_to_popularity``, ``wins_over_popularity``: the same for lists, recall(popularity-private) over
  recall(method);
- ``against``: wins and losses of the method against every other algorithm; ``failed``: runs that ended with an
  error, with the sentence.

``adadpals-biases`` is AdaDPALS with ``biases = true``. ``adadpals-best`` is AdaDPALS at the best of a few settings
on the *test* data of each set and epsilon: more than anybody could have without spending budget, in the rival's
favour. With FOLDER every run is kept: a stopped benchmark goes on where it was. After a change of the code give
another one.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fedboard
from fedboard.common.algorithms.registry import algorithm_names
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import FedboardError, InputError

NAMED = {name: {"source": name} for name in ("ml-1m", "ml-100k", "ml-latest-small", "ml-1m-x12")}
"""Looked up in ``$FEDBOARD_DATA``; left out where they are not there."""
SYNTHETIC = {"synthetic-2": (20_000, 2), "synthetic-20": (5_000, 20), "synthetic-200": (2_000, 200)}
"""Name -> users and mean ratings of each."""
LISTS_TOO = ("ml-1m", "ml-100k")
METHOD = {"explicit": "residual", "implicit": "topk"}
FLOORS = {
    "explicit": ("mean-private", "item-mean-private", "bias-private"),
    "implicit": ("popularity-private",),
}
"""Simple private models, at the same epsilon and delta."""
REFERENCES = {
    "explicit": ("item-mean", "user-item-bias", "local-only", "als", "bias-best", "als-best"),
    "implicit": ("popularity", "als", "ease", "als-best"),
}
KEYS = {"explicit": ("rmse", "test_rmse"), "implicit": ("recall", "recall@20")}
"""Key in the JSON, and name of the metric."""
NO_PRIVACY = "inf"
BEST, BIASED = "adadpals-best", "adadpals-biases"
RIVALS = {"explicit": ("adadpals", BEST, BIASED, "adadpsgd"), "implicit": ("residual", "adadpals", BEST)}
VARIANTS: dict[str, dict[str, Any]] = {
    BIASED: {"biases": True},
    f"{BEST}/0": {"rank": 2, "count_cap": 20},
    f"{BEST}/1": {"rank": 4, "user_ridge": 8.0},
    f"{BEST}/2": {"rank": 8, "rounds": 4},
}
"""AdaDPALS with other settings, under a name of its own."""
Nested = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Where ratings are and what is public about them."""

    name: str
    feedback: str
    """``explicit``: judged by the error of ratings; ``implicit``: by lists."""
    delta: float = 1e-5
    archive: Path | None = None
    """An ``.npz`` of the folder: user, item, rating; item_id where there is one."""
    rating_range: tuple[float, float] = (1.0, 5.0)
    presence: bool = False
    """Whether who has what is all that is known."""
    n_items: int = 0
    """As stated; items that nobody rated count."""
    source: dict[str, Any] = field(default_factory=dict)
    """``data`` of the configuration, for what is not in the folder."""

    def data(self) -> Any:
        """As ``fedboard.sweep`` takes it; a set of the folder in memory, with one rating for a pair."""
        if self.archive is None:
            return self.source
        with np.load(self.archive, allow_pickle=False) as stored:
            if missing := {"user", "item", "rating"}.difference(stored.files):
                raise InputError(f"{self.archive}: has no array {min(missing)!r}")
            arrays = {name: stored[name] for name in stored.files}
        users, items = arrays["user"].astype(np.int64), arrays["item"].astype(np.int64)
        known = max(self.n_items, int(items.max()) + 1)
        ids = arrays.get("item_id", np.empty(0)).astype(np.str_)
        ids = ids if np.unique(ids).size >= known else np.arange(known).astype(np.str_)
        _, from_the_end = np.unique((users * known + items)[::-1], return_index=True)
        last = np.sort(users.size - 1 - from_the_end)
        ratings = arrays["rating"][last].astype(np.float32)
        return fedboard.load_ratings(
            (users[last], ids[items[last]], np.ones_like(ratings) if self.presence else ratings),
            rating_range=self.rating_range,
            titles={name: name for name in ids.tolist()},
            catalogue="listed",
        )


def sets_of(folder: Path | None, names: Sequence[str]) -> list[DataSet]:
    """All data sets, or those that are named, with ``:explicit`` or ``:implicit`` for one way of judging alone.

    Raises:
        InputError: the folder cannot be used, or a name is unknown.
    """
    known = [] if folder is None else _of_folder(folder)
    known += [data for data in _of_names() if data.name not in {one.name for one in known}]
    lists = [DataSet(**{**vars(one), "feedback": "implicit"}) for one in known if one.feedback == "explicit"]
    keyed = {f"{one.name}:{one.feedback}": one for one in (*lists, *known)}
    if not names:
        return [*known, *(one for one in lists if one.name in LISTS_TOO and one.archive is None)]
    found = []
    for name in names:
        both = [one for one in sets_of(folder, ()) if one.name == name] if ":" not in name else []
        if name not in keyed and not both:
            raise InputError(
                f"--sets: unknown set {name!r}; there are {', '.join(one.name for one in known)}"
            )
        found += both or [keyed[name]]
    return found


def _of_folder(folder: Path) -> list[DataSet]:
    try:
        info = json.loads((folder / "info.json").read_text(encoding="utf-8"))
        return [_stated(folder / f"{name}.npz", stated) for name, stated in sorted(info.items())]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: needs an info.json that says range and delta of each set ({error})"
        ) from error


def _stated(archive: Path, stated: Mapping[str, Any]) -> DataSet:
    implicit = "implicit" in str(stated.get("note", ""))
    low, high = map(float, stated["range"])
    return DataSet(
        name=archive.stem,
        feedback="implicit" if implicit else "explicit",
        presence=implicit,
        delta=float(stated.get("delta", 1e-5)),
        archive=archive,
        rating_range=(0.0, 1.0) if implicit else (low, high),
        n_items=int(stated.get("items", 0)),
    )


def _of_names() -> list[DataSet]:
    place = Path(os.environ.get("FEDBOARD_DATA", ""))
    there = {
        name: source for name, source in NAMED.items() if [*place.glob(name), *place.glob(f"{name}.npz")]
    }
    made = {
        name: {
            "source": "synthetic",
            "synthetic": {
                "n_users": n_users,
                "mean_ratings_per_user": float(mean),
                "minimum_ratings_per_user": min(mean, 10),
            },
        }
        for name, (n_users, mean) in SYNTHETIC.items()
    }
    return [
        DataSet(
            name=name,
            feedback="explicit",
            source=source,
            rating_range=(0.5, 5.0) if name == "ml-latest-small" else (1.0, 5.0),
        )
        for name, source in (there | made).items()
    ]


def run_set(data: DataSet, given: argparse.Namespace, out: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """All runs on one set: a row for each, and what failed."""
    method = given.method or METHOD[data.feedback]
    usual = (method, *FLOORS[data.feedback], *RIVALS[data.feedback], *REFERENCES[data.feedback])
    fit = (*algorithm_names(Feedback(data.feedback)), *REFERENCES[data.feedback], *RIVALS[data.feedback])
    names = tuple(name for name in dict.fromkeys(given.algorithms or usual) if name in fit)
    if BEST in names:
        names += tuple(name for name in VARIANTS if name.startswith(BEST))
    source, (low, high) = data.data(), data.rating_range
    split = {"positive_above": low + 0.625 * (high - low)} if data.feedback == "implicit" else {}
    rows, failed = list[dict[str, Any]](), list[str]()
    sweeps = {"": [name for name in names if name not in (*VARIANTS, BEST)]}
    sweeps |= {name: ["adadpals"] for name in names if name in VARIANTS}
    for variant, algorithms in sweeps.items():
        place = out / f"{data.name}-{data.feedback}{variant and '-'}{variant.replace('/', '-')}"
        if not algorithms:
            continue
        found = fedboard.sweep(
            algorithms=algorithms,
            floors=False,
            epsilons=given.epsilon,
            seeds=given.seeds,
            data=source,
            feedback=data.feedback,
            delta=data.delta,
            split=split,
            settings=VARIANTS.get(variant, {}),
            run={"evaluate_rounds": False},
            out=place,
            jobs=given.jobs if data.archive is None else 1,
            resume=place.exists(),
        )
        rows += [{**row, "algorithm": variant or row["algorithm"]} for row in found.rows]
        failed += [f"{place.name}: {outcome.cell.name}: {outcome.error}" for outcome in found.failed]
    print(f"{data.name} {data.feedback}: {len(rows)} runs, {len(failed)} failed", file=sys.stderr, flush=True)
    return rows, failed


def by_seed(rows: Iterable[Mapping[str, Any]], feedback: str) -> dict[str, dict[str, list[float]]]:
    """Algorithm -> epsilon -> the metric of each seed; the best of the few settings goes by one name."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        epsilon = NO_PRIVACY if row["epsilon"] is None else f"{row['epsilon']:g}"
        found.setdefault(row["algorithm"], {}).setdefault(epsilon, []).append(float(row[KEYS[feedback][1]]))
    tried = {name: found.pop(name) for name in list(found) if name.startswith(f"{BEST}/")}
    if tried:
        tried |= {"adadpals": found.get("adadpals", {})}
        choose = min if feedback == "explicit" else max
        found[BEST] = {
            epsilon: choose((one[epsilon] for one in tried.values() if epsilon in one), key=statistics.fmean)
            for epsilon in next(iter(tried.values()))
        }
    return found


def judged(found: Mapping[str, Any], method: Mapping[str, str]) -> dict[str, Any]:
    """How the method compares, from the errors alone."""
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
            feedback: against(found[key], method[feedback], higher=feedback == "implicit")
            for feedback, (key, _) in KEYS.items()
        },
    }


def compared(values: Nested, method: str, floors: Iterable[str], *, higher: bool) -> list[dict[str, Any]]:
    """Of each set and epsilon, the method's value over that of the best floor; above 1 is a loss."""
    found = []
    for name, of_set in values.items():
        for epsilon, value in of_set.get(method, {}).items():
            rivals = {floor: of_set[floor][epsilon] for floor in floors if epsilon in of_set.get(floor, {})}
            if not rivals:
                continue
            best = (max if higher else min)(rivals, key=lambda floor: rivals[floor])
            ratio = rivals[best] / max(value, 1e-9) if higher else value / rivals[best]
            found.append({"set": name, "epsilon": epsilon, "floor": best, "ratio": ratio})
    return found


def against(values: Nested, method: str, *, higher: bool) -> dict[str, dict[str, int]]:
    """Of every other private algorithm: how often the method is better, and how often worse."""
    found = {}
    for other in sorted({name for of_set in values.values() for name in of_set} - {method}):
        ratios = [entry["ratio"] for entry in compared(values, method, (other,), higher=higher)]
        if ratios:
            counts = {"wins": sum(one < 1 for one in ratios), "losses": sum(one > 1 for one in ratios)}
            found[other] = counts
    return found


def table(found: Mapping[str, Any], feedback: str) -> str:
    """Markdown: a row per set and algorithm, a column per epsilon, mean and spread; the best is bold."""
    means, spreads = found[KEYS[feedback][0]], found[f"{KEYS[feedback][0]}_std"]
    epsilons = sorted({e for of_set in means.values() for row in of_set.values() for e in row}, key=float)
    heads = ["no privacy" if epsilon == NO_PRIVACY else f"epsilon {epsilon}" for epsilon in epsilons]
    rows = [["set", "algorithm", *heads], ["---"] * (2 + len(epsilons))]
    choose = min if feedback == "explicit" else max
    for name, of_set in means.items():
        best = {e: choose(row[e] for row in of_set.values() if e in row) for e in epsilons}
        for algorithm, row in of_set.items():
            cells = [
                f"{row[e]:.4f} ({spreads[name][algorithm][e]:.4f})" if e in row else "" for e in epsilons
            ]
            bold = [row.get(e) == best[e] for e in epsilons]
            shown = [f"**{cell}**" if is_best else cell for cell, is_best in zip(cells, bold, strict=True)]
            rows.append([name, algorithm, *shown])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) if means else ""


def arguments() -> argparse.Namespace:
    def words(text: str) -> tuple[str, ...]:
        return tuple(word for word in text.split(",") if word)

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="DIR", help="folder of .npz sets with info.json")
    add("--sets", type=words, default=(), metavar="A,B", help="default: all")
    add(
        "--algorithms",
        type=words,
        default=(),
        metavar="A,B",
        help="default: the method and all it is held against",
    )
    add("--method", metavar="NAME", help="what is judged against the floors; default: that of the feedback")
    add("--epsilon", type=lambda text: [float(one) for one in words(text)], default=[0.5, 1.0, 5.0, 20.0])
    add(
        "--seeds", type=lambda text: [int(one) for one in words(text)], default=[0, 1, 2], help="of the noise"
    )
    add("--jobs", type=int, default=1, metavar="N", help="runs at a time, of sets with a name")
    add("--out", type=Path, metavar="FOLDER", help="keep the runs here; default: nowhere")
    add("--json", type=Path, metavar="FILE", help="the numbers")
    return parser.parse_args()


def run(given: argparse.Namespace, out: Path) -> int:
    """Run, print, write; the number of runs that failed."""
    asked = {"epsilon": given.epsilon, "seeds": given.seeds}
    found: dict[str, Any] = {name + end: {} for name, _ in KEYS.values() for end in ("", "_std")} | {
        "failed": [],
        "asked": asked,
    }
    for data in sets_of(given.data, given.sets):
        rows, failed = run_set(data, given, out)
        found["failed"] += failed
        values = by_seed(rows, data.feedback)
        for end, make in (
            ("", statistics.fmean),
            ("_std", lambda one: statistics.stdev(one) if one[1:] else 0.0),
        ):
            found[KEYS[data.feedback][0] + end][data.name] = {
                name: {epsilon: make(seeds) for epsilon, seeds in row.items()} for name, row in values.items()
            }
    method = {feedback: given.method or name for feedback, name in METHOD.items()}
    found = {**judged(found, method), **found}
    print("\n\n".join(filter(None, (table(found, feedback) for feedback in KEYS))))
    print(
        json.dumps({key: value for key, value in found.items() if isinstance(value, int | float)}, indent=1)
    )
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(found["failed"]), file=sys.stderr)
    return len(found["failed"])


def main() -> None:
    """Run what is not kept yet; exit code 1 where a run failed."""
    given = arguments()
    try:
        with nullcontext(given.out) if given.out else tempfile.TemporaryDirectory(prefix="accuracy-") as out:
            failed = run(given, Path(out))
    except FedboardError as error:
        raise SystemExit(f"accuracy: {error}") from None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
