"""``python research/run.py population statistics``: made-up people beside those whom they were fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.synthetic.people.fitted import ML_1M
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.judging.evaluation import judge
from fedboard.simulations.problem import load_data, problem_of
from fedboard.simulations.runs.kernel_choice import backend_of
from fedboard.simulations.runs.without_privacy import fit_reference
from research.liu.lines import Line, line_panels
from research.population.fitting import TURNS, fitted, made_up, target_of
from research.population.statistics import Statistics, statistics_of
from research.shared.experiment import Outcome, Setting
from research.shared.ratings import data_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEWEST_QUANTILE = 0.005
"""Who rates less than this share of the users does not count as what everybody rates."""
_MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "item means": ("item-mean", {}),
    "item means, own bias": ("user-item-bias", {}),
    "ALS, rank 4": ("als", {"rank": 4}),
    "ALS, rank 8": ("als", {"rank": 8}),
    "ALS, rank 16": ("als", {"rank": 16}),
}
_DATA, _MADE = "data", "made up"


def likeness(setting: Setting, *, turns: int = TURNS) -> Outcome:
    """Fit a shape to the data, and hold people of the committed shape beside them.

    Args:
        setting: what is asked for; its seeds are those of the people.
        turns: of the fit.

    Raises:
        InputError: the ratings are not whole stars from 1 to 5.
    """
    ratings = load_data(data_of(setting))
    _require_stars(ratings)
    fewest = max(1, int(np.quantile(np.bincount(ratings.users), _FEWEST_QUANTILE)))
    target = target_of(ratings, fewest=fewest)
    shape = fitted(target, turns=turns, on_turn=lambda done, of: setting.on_progress("fitting", done, of))
    people = [made_up(ML_1M, target, seed=seed) for seed in range(setting.seeds)]
    made = [statistics_of(one) for one in people]
    errors = _errors(ratings, setting), [_errors(one, setting) for one in people]
    return Outcome(
        numbers={
            "statistics": _beside(target.statistics.to_dict(), [one.to_dict() for one in made]),
            "test RMSE without privacy": _beside(*errors),
        },
        settings={
            "data": ratings.name,
            "seeds": setting.seeds,
            "turns": turns,
            "fewest": fewest,
            "shape, committed": asdict(ML_1M),
            "shape, fitted now": asdict(shape),
        },
        comparison=_comparison(target.statistics, made[0], errors[0], errors[1][0]),
        figures={
            "popularity": _popularity(ratings, people[0]),
            "activity": _activity(ratings, people[0]),
            "tastes": _tastes(target.statistics, made[0]),
        },
    )


def _require_stars(ratings: Ratings) -> None:
    if ratings.rating_range != (1.0, 5.0) or ratings.presence or (ratings.values % 1).any():
        raise InputError(f"{ratings.name}: people are fitted to ratings in whole stars from 1 to 5")


def _errors(ratings: Ratings, setting: Setting) -> dict[str, float]:
    """Test RMSE of models without privacy, on the usual split."""
    config = SimulationConfig()
    problem = problem_of(ratings, config)
    found = {}
    with WorkerPool(1) as pool:
        for number, (label, (name, settings)) in enumerate(_MODELS.items()):
            setting.on_progress(f"models on {ratings.name}", number, len(_MODELS))
            model = fit_reference(
                name,
                problem,
                feedback=config.feedback,
                backend=backend_of(config, problem),
                settings=settings,
                threads=setting.workers,
            )
            found[label] = judge(model, problem, part="test", pool=pool).metrics["test_rmse"]
    return found


def _beside(
    data: Mapping[str, float], made: Sequence[Mapping[str, float]]
) -> dict[str, dict[str, float | None]]:
    """A row for each statistic: of the data, and of the people, over the seeds."""
    return {
        key: {
            _DATA: value,
            f"{_MADE}, mean": float(np.mean([one[key] for one in made])),
            "least": min(one[key] for one in made),
            "most": max(one[key] for one in made),
        }
        for key, value in data.items()
    }


def _comparison(
    data: Statistics, made: Statistics, errors: Mapping[str, float], made_errors: Mapping[str, float]
) -> str:
    label, plain = "ALS, rank 8", "item means, own bias"
    return (
        f"ALS of rank 8 gains {errors[plain] - errors[label]:.4f} stars over item means and an own bias on "
        f"{data.name}, {made_errors[plain] - made_errors[label]:.4f} on made-up people. What differs: which items "
        f"are rated together (first direction {data.company[0]:.2f} of the data, {made.company[0]:.2f} of the "
        "people), and how far a user's own ratings scatter, in which the people differ less "
        f"({data.spread_deviation:.2f} and {made.spread_deviation:.2f})."
    )


def _popularity(data: Ratings, made: Ratings) -> "Figure":
    def line(ratings: Ratings) -> Line:
        counts = np.sort(np.bincount(ratings.items, minlength=ratings.n_items))[::-1] / ratings.n_users
        places = np.unique(np.geomspace(1, ratings.n_items, 60).astype(int))
        return places.tolist(), counts[places - 1].tolist()

    return line_panels(
        {"popularity": {_DATA: line(data), _MADE: line(made)}},
        across="place of the item",
        up="share of the users who rate it",
        log="xy",
    )


def _activity(data: Ratings, made: Ratings) -> "Figure":
    def line(ratings: Ratings) -> Line:
        counts = np.sort(np.bincount(ratings.users, minlength=ratings.n_users))[::-1]
        places = np.unique(np.geomspace(1, counts.size, 60).astype(int))
        return places.tolist(), counts[places - 1].tolist()

    return line_panels(
        {"activity": {_DATA: line(data), _MADE: line(made)}},
        across="place of the user",
        up="ratings",
        log="xy",
    )


def _tastes(data: Statistics, made: Statistics) -> "Figure":
    places = list(range(1, data.tastes.size + 1))
    return line_panels(
        {
            "tastes": {_DATA: (places, data.tastes.tolist()), _MADE: (places, made.tastes.tolist())},
            "company": {_DATA: (places, data.company.tolist()), _MADE: (places, made.company.tolist())},
        },
        across="direction",
        up="singular value",
    )
