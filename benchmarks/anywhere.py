"""Is the default method good on anybody's data? Sets of all shapes, with the floors that any method must beat.

usage: python benchmarks/anywhere.py [--data DIR] [--sets A,B] [--algorithms A,B] [--epsilon E,F] [--seeds S,T]
           [--results FILE.jsonl] [--json FILE] [--jobs N]

DIR holds ``.npz`` sets (user, item, rating; of a pair that is there twice the last counts) and ``info.json``, which
says of each name: ``range`` [lowest, highest], ``delta``, ``items``, and ``note`` with the word implicit where
presence is all that is known. Beside them stand ml-1m, ml-100k, ml-latest-small and ml-1m-x12 where
``$FEDBOARD_DATA`` has them, and synthetic sets with 2, 20 and 200 ratings a user. A set may be named
``ml-1m:implicit`` for one way of judging alone, and any set of ratings of DIR so for lists.

Every number is the mean over the seeds on held-out data: RMSE of ratings in their own units (a tenth of the ratings
held out), or Recall@20 of lists (a tenth of the users). Private runs are complete simulations with ledger and
certificate at the stated epsilon and the set's delta, all on the same split.

- ``rmse.<set>.<algorithm>.<epsilon>``, ``recall.<set>.<algorithm>.<epsilon>`` (``inf``: trained without privacy),
  and ``rmse_std``, ``recall_std`` over the seeds;
- ``worst_ratio_to_floor``: the largest, over sets with ratings and epsilons, of rmse(method) / min of rmse over
  ``mean-private`` (a private constant and the user's own bias), ``item-mean-private`` and ``bias-private``. The
  method is the default algorithm, or the one that ``--method`` names. Above 1 it loses somewhere;
- ``wins_over_floor`` of ``comparisons_with_floor``: in how many of those the ratio is below 1;
- ``worst_ratio_to_popularity``, ``wins_over_popularity``: the same for lists, recall(popularity-private) over
  recall(method);
- ``against``: wins and losses of the method against every other algorithm; ``sets``: their shapes; ``failed``: runs
  that ended with an error, with the sentence.

``adadpals-biases`` is AdaDPALS with ``biases = true``. ``adadpals-best`` is AdaDPALS at the best of a few settings
on the *test* data of each set and epsilon: more than anybody could have without spending budget, in the rival's
favour. FILE.jsonl keeps every run: a stopped benchmark goes on where it was, and runs whose code has changed since
are run again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accuracy.anywhere.cells import Cell, run_all
from accuracy.anywhere.figures import draw
from accuracy.anywhere.sets import DataSet, sets_of
from accuracy.anywhere.summary import FLOORS, summary, table, verdict

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.tasks.registry import algorithm_names, usual
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.judging.references import ceiling_names, reference_names
from fedboard.simulations.runs.without_privacy import is_reference

BEST_OF_FEW = "adadpals-best"
_FEW: tuple[dict[str, Any], ...] = (
    {"rank": 2, "count_cap": 20},
    {"rank": 4, "user_ridge": 8.0},
    {"rank": 8, "rounds": 4},
)
BIASED = "adadpals-biases"
"""AdaDPALS with the bias floor under it; not in the paper."""
_RIVALS = {
    "explicit": ("adadpals", BEST_OF_FEW, BIASED, "adadpsgd"),
    "implicit": ("residual", "adadpals", BEST_OF_FEW),
}


def arguments() -> argparse.Namespace:
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
        help="default: the method, floors, rivals, references",
    )
    add("--method", metavar="NAME", help="what is judged against the floors; default: that of the feedback")
    add("--epsilon", type=numbers, default=(0.5, 1.0, 5.0, 20.0), metavar="E,F", help="default: 0.5,1,5,20")
    add("--seeds", type=wholes, default=(0, 1, 2), metavar="S,T", help="of the noise; default: 0,1,2")
    add("--no-references", action="store_true", help="leave out the models without privacy")
    add("--jobs", type=int, default=1, metavar="N", help="runs at a time")
    add(
        "--results",
        type=Path,
        metavar="FILE",
        help="keep every run here; default: beside --json, or anywhere.jsonl",
    )
    add("--json", type=Path, metavar="FILE", help="the numbers; table and figures go beside it")
    return parser.parse_args()


def words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def numbers(text: str) -> tuple[float, ...]:
    found = tuple(float(word) for word in words(text))
    if not found or min(found) <= 0:
        raise argparse.ArgumentTypeError("needs numbers > 0")
    return found


def wholes(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words(text))


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """All cells, those on the same ratings one after the other."""
    known = (*algorithm_names(), BEST_OF_FEW, BIASED)
    for name in options.algorithms:
        if name not in known and not is_reference(name):
            raise InputError(f"--algorithms: unknown {name!r}; private are {', '.join(known)}")
    return [
        cell
        for data in sets_of(options.data, options.sets)
        for name in _named(options, data)
        for cell in _cells(data, name, options)
    ]


def _named(options: argparse.Namespace, data: DataSet) -> list[str]:
    """What is run on a set; of the names that were given those that learn from what it has."""
    feedback = Feedback(data.feedback)
    references = (*reference_names(feedback), *ceiling_names(feedback))
    biased = (BIASED,) if feedback is Feedback.EXPLICIT else ()
    fit = (*algorithm_names(feedback), *references, BEST_OF_FEW, *biased)
    method = options.method or usual(data.feedback)
    chosen = options.algorithms or (method, *FLOORS[data.feedback], *_RIVALS[data.feedback])
    shown = () if options.no_references else references
    return [name for name in dict.fromkeys((*chosen, *shown)) if name in fit]


def _cells(data: DataSet, name: str, options: argparse.Namespace) -> list[Cell]:
    if is_reference(name):
        return [Cell(data=data, label=name, algorithm=name, epsilon=None, seed=0)]
    tries: Sequence[tuple[str, dict[str, Any]]] = [(name, {})]
    algorithm = name
    if name == BIASED:
        algorithm, tries = "adadpals", [(name, {"biases": True})]
    if name == BEST_OF_FEW:
        algorithm = "adadpals"
        tries = [(f"{name}/{number}", settings) for number, settings in enumerate(_FEW)]
    return [
        Cell(data=data, label=label, algorithm=algorithm, epsilon=epsilon, seed=seed, settings=settings)
        for label, settings in tries
        for epsilon in options.epsilon
        for seed in options.seeds
    ]


def best_of_few(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines, with the best of the few settings (and the default) of each set and epsilon for all of them."""
    tried = [line for line in lines if line["algorithm"].startswith(f"{BEST_OF_FEW}/")]
    groups: dict[tuple[str, str, float], dict[str, list[dict[str, Any]]]] = {}
    for line in [*tried, *(line for line in lines if tried and line["algorithm"] == "adadpals")]:
        if line["error"] is None:
            place = (line["set"], line["feedback"], line["epsilon"])
            groups.setdefault(place, {}).setdefault(line["algorithm"], []).append(line)
    chosen = []
    for (_, feedback, _), candidates in groups.items():
        sign = 1.0 if feedback == "explicit" else -1.0
        best = min(
            candidates.values(), key=lambda own, sign=sign: sign * sum(x["value"] for x in own) / len(own)
        )
        chosen += [{**line, "algorithm": BEST_OF_FEW} for line in best]
    failed = [line for line in tried if line["error"] is not None]
    return [*(line for line in lines if line not in tried), *chosen, *failed]


def run(options: argparse.Namespace) -> int:
    """Run, write, print; the number of runs that failed."""
    cells = cells_of(options)
    if not cells:
        raise InputError("nothing to run: none of the algorithms learns from what the sets have")
    beside = options.json.with_suffix(".jsonl") if options.json else Path("anywhere.jsonl")
    lines = best_of_few(run_all(cells, options.results or beside, jobs=options.jobs))
    method = {feedback: options.method or usual(feedback) for feedback in FLOORS}
    asked = {"epsilon": list(options.epsilon), "seeds": list(options.seeds), "method": method}
    found = summary(lines, method=method, asked=asked)
    tables = [table(found, feedback) for feedback in FLOORS]
    text = "\n\n".join(part for part in (*tables, verdict(found, method)) if part)
    print(text)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        options.json.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
        draw(found, method["explicit"], options.json)
    for line in found["failed"]:
        print(f"failed: {line['set']} {line['algorithm']}: {line['error']}", file=sys.stderr)
    return len(found["failed"])


def main() -> None:
    """Run what is not in the results yet; exit code 1 where a cell failed."""
    try:
        failed = run(arguments())
    except FedboardError as error:
        raise SystemExit(f"anywhere: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted: the same command goes on") from None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
