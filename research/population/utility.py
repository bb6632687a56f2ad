"""``python research/run.py population curve``: the runs, their tables, the figure, and the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedboard.common.errors import InputError
from fedboard.simulations.data.synthetic.people import PeopleConfig
from fedboard.simulations.evaluation.references import ALS
from fedboard.simulations.problem import load_data
from fedboard.simulations.sections import DataConfig
from research.population.curve import (
    DELTA,
    EPSILONS,
    JUDGED,
    LEARNERS,
    MOST_FITTED,
    NONE,
    OWN_BIAS,
    SETTLED,
    TRIVIAL,
    USUAL_MOST,
    Gap,
    Measured,
    People,
    Plan,
    gap_of,
    ladder_to,
    measured,
    people_needed,
)
from research.population.parts import Parts
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Line, line_panels

HALF, MOST = 0.5, 0.9
PLAN = Plan(epsilons=EPSILONS, seeds=3, workers=1)
STEPS: tuple[int, ...] = ()
"""What is usual; no steps stand for those to the number that is asked for."""
_LABELS = {
    "residual": "residual",
    "adadpals": "AdaDPALS",
    TRIVIAL: "item means, own bias",
    OWN_BIAS: "item means, own bias, no privacy",
    ALS: "ALS, no privacy",
}


def utility_curve(setting: Setting, *, plan: Plan | None = None, ladder: Sequence[int] = ()) -> Outcome:
    """Everything up to the largest number of people that is asked for, and data sets beside people like them.

    Args:
        setting: what is asked for. Each data set that it names is run, too, and as many made-up people beside it.
        plan: what is run; None for the usual.
        ladder: numbers of people, ascending; () for the usual.

    Raises:
        InputError: a run failed, the folder holds parts of other settings, or nothing can be fitted without
            privacy, since there are too many people everywhere.
    """
    if ladder and ladder[0] > MOST_FITTED:
        raise InputError(f"ladder must begin with at most {MOST_FITTED:,} people, got {ladder[0]:,}")
    plan = plan or replace(
        PLAN, epsilons=setting.epsilons_or(*EPSILONS), seeds=setting.seeds, workers=setting.workers
    )
    steps = tuple(ladder) or STEPS or ladder_to(setting.most_users or USUAL_MOST)
    parts = Parts(setting.scratch)
    found = measured(plan, parts, [plan.made_up(users) for users in steps], setting)
    beside = measured(plan, parts, _beside(plan, setting), setting)
    return Outcome(
        numbers=_numbers(plan, found, beside),
        settings=_settings(plan, steps, found),
        comparison=_comparison(plan, found),
        figures={
            "population-curve": line_panels(
                _panels(plan, found), across="people", up="test RMSE, stars", log="x"
            )
        },
    )


def _beside(plan: Plan, setting: Setting) -> list[People]:
    """Each data set that is named, and as many people of the same catalogue who rate as much."""
    named = [data for data in (setting.data, *setting.more_data) if data is not None]
    found = []
    for number, data in enumerate(named):
        ratings = load_data(data)
        n_ratings = ratings.n_ratings + (0 if ratings.test is None else ratings.test.n_ratings)
        like = PeopleConfig(
            users=ratings.n_users, items=ratings.n_items, mean=round(n_ratings / ratings.n_users, 1)
        )
        label = f"{number}-{ratings.name}"
        found += [
            People(label=f"data-{label}", users=like.users, data=data),
            People(label=f"like-{label}", users=like.users, data=DataConfig(source=like.text)),
        ]
    return found


def _numbers(plan: Plan, found: Sequence[Measured], beside: Sequence[Measured]) -> dict[str, Any]:
    told: dict[str, Any] = {
        f"test RMSE, epsilon {_named(epsilon)}": {
            f"{one.people.users:,}": row
            for one in found
            if (row := _known({_LABELS[name]: one.rmse(name, epsilon) for name in plan.algorithms}))
        }
        for epsilon in (*plan.epsilons, NONE)
    }
    told["test RMSE, no privacy"] = {
        f"{one.people.users:,}": {_LABELS[name]: ran.rmse for name, ran in one.references.items()}
        for one in found
        if one.references
    }
    gap = gap_of(found)
    if gap.is_one:
        told["share of the gap that is closed"] = _closed(plan, found, gap)
        told["people needed"] = _needed(plan, found, gap)
    seconds = {
        f"{one.people.users:,}": {
            _LABELS[name]: max(ran.seconds for epsilon in plan.epsilons for ran in one.private[name, epsilon])
            for name in plan.algorithms
            if any(one.private[name, epsilon] for epsilon in plan.epsilons)
        }
        for one in found
    }
    told["seconds of a run"] = {users: row for users, row in seconds.items() if row}
    if beside:
        told["beside data"] = {one.people.label: _row(plan, one) for one in beside}
    return told


def _row(plan: Plan, one: Measured) -> dict[str, float]:
    private = {
        f"{_LABELS[name]}, epsilon {_named(epsilon)}": one.rmse(name, epsilon)
        for epsilon in (*plan.epsilons, NONE)
        for name in plan.algorithms
    }
    return {**_known(private), **{_LABELS[name]: ran.rmse for name, ran in one.references.items()}}


def _known(row: Mapping[str, float | None]) -> dict[str, float]:
    """What was run."""
    return {name: value for name, value in row.items() if value is not None}


def _closed(plan: Plan, found: Sequence[Measured], gap: Gap) -> dict[str, dict[str, float]]:
    return {
        f"{one.people.users:,}": {
            f"{_LABELS[name]}, epsilon {_named(epsilon)}": gap.closed(rmse)
            for name in _learners(plan)
            for epsilon in (*plan.epsilons, NONE)
            if (rmse := one.rmse(name, epsilon)) is not None
        }
        for one in found
    }


def _needed(plan: Plan, found: Sequence[Measured], gap: Gap) -> dict[str, dict[str, str]]:
    def needed(name: str, epsilon: float, share: float) -> str:
        users, rmses = _line(found, name, epsilon)
        return people_needed([int(n) for n in users], [gap.closed(rmse) for rmse in rmses], share)

    return {
        f"{_LABELS[name]}, epsilon {_named(epsilon)}": {
            "as good as means without privacy": needed(name, epsilon, 0.0),
            "half of the gap": needed(name, epsilon, HALF),
            "90 % of it": needed(name, epsilon, MOST),
        }
        for name in _learners(plan)
        for epsilon in (*plan.epsilons, NONE)
    }


def _panels(plan: Plan, found: Sequence[Measured]) -> Mapping[str, Mapping[str, Line]]:
    fitted = [one for one in found if one.references]
    without: dict[str, Line] = {
        _LABELS[name]: (
            [float(one.people.users) for one in fitted],
            [one.references[name].rmse for one in fitted],
        )
        for name in (OWN_BIAS, ALS)
    }
    return {
        f"epsilon {_named(epsilon)}": {
            **{_LABELS[name]: _line(found, name, epsilon) for name in plan.algorithms},
            **without,
        }
        for epsilon in (*plan.epsilons, NONE)
    }


def _line(found: Sequence[Measured], algorithm: str, epsilon: float) -> Line:
    """People and errors, of the runs that there are."""
    known = [(float(one.people.users), one.rmse(algorithm, epsilon)) for one in found]
    run = [(users, rmse) for users, rmse in known if rmse is not None]
    return [users for users, _ in run], [rmse for _, rmse in run]


def _settings(plan: Plan, steps: Sequence[int], found: Sequence[Measured]) -> dict[str, Any]:
    return {
        "people": list(steps),
        "source": plan.made_up(steps[-1]).data.source,
        "epsilons": [*plan.epsilons, NONE],
        "delta": DELTA,
        "judged at most": JUDGED,
        "settled within": SETTLED,
        "seeds": {f"{users:,}": len(plan.seeds_of(plan.made_up(users))) for users in steps},
        "settings": {
            f"{one.people.users:,}": {
                f"{_LABELS[name]}, epsilon {_named(epsilon)}": _chosen(plan, one.people, name, epsilon)
                for name in plan.algorithms
                for epsilon in (*plan.epsilons, NONE)
                if one.private[name, epsilon]
            }
            for one in found
        },
        "ALS": plan.reference(plan.made_up(steps[0]), ALS).config.settings,
    }


def _chosen(plan: Plan, people: People, algorithm: str, epsilon: float) -> dict[str, Any]:
    config = plan.private(people, algorithm, epsilon, 0).config
    return {"settings": dict(config.settings), "shares": dict(config.privacy.shares)}


def _comparison(plan: Plan, found: Sequence[Measured]) -> str:
    most = found[-1].people
    gap = gap_of(found)
    told = (
        "Made-up people, fitted to aggregate statistics of MovieLens 1M; no paper has such a figure. Without "
        f"privacy, item means and a bias of her own for everybody reach {gap.trivial:.4f}, the best model "
        f"{gap.best:.4f}"
    )
    if not gap.is_one:
        return f"{told}: for so few people there is no gap to close."
    needed = _needed(plan, found, gap)
    answers = "; ".join(
        f"{key}: half of it from {row['half of the gap']} people, 90 % from {row['90 % of it']}"
        for key, row in needed.items()
    )
    return f"{told}. Of that gap, up to {most.users:,} people: {answers}."


def _learners(plan: Plan) -> list[str]:
    return [name for name in plan.algorithms if name in LEARNERS]


def _named(epsilon: float) -> str:
    return "none" if epsilon == NONE else f"{epsilon:g}"
