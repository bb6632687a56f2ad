"""Utility against the number of people, by epsilon: how many people does which promise need?"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from math import log10
from typing import Any

import msgspec
import numpy as np

from fedboard.common.algorithms.shared.preparation import USERS_ENOUGH, moments_share
from fedboard.common.algorithms.shared.tuned import Preset
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.data.synthetic.people import PREFIX, PeopleConfig
from fedboard.simulations.evaluation.references import ALS
from fedboard.simulations.sections import DataConfig, RunConfig
from research.population.parts import Part, Parts, Ran
from research.shared.experiment import Setting

TUNED_ON = 100_000
"""People on whose ratings these settings were tuned."""
_FILE = "settings.toml"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epsilon: float
    """Of ``TUNED_ON`` people."""
    settings: dict[str, Any]
    shares: dict[str, float] = {}


def settings_for(algorithm: str, epsilon: float, users: int) -> Preset:
    """The settings nearest to this much noise, on the log scale; empty where the algorithm has none here.

    Args:
        algorithm: any.
        epsilon: > 0.
        users: >= 1.
    """
    wanted = equivalent(epsilon, users)
    entries = _entries().get(algorithm, [])
    if not entries:
        return Preset()
    nearest = min(entries, key=lambda entry: abs(math.log(entry.epsilon / wanted)))
    return Preset(settings=nearest.settings, shares=nearest.shares)


def equivalent(epsilon: float, users: int) -> float:
    """The epsilon at which the people that settings were tuned on have as much noise beside their ratings.

    Noise of a sum goes by 1 / epsilon and what people add to it by their number, so that settings for many people
    at a small epsilon are those for fewer at a larger one.
    """
    return epsilon * users / TUNED_ON


@lru_cache(maxsize=1)
def _entries() -> Mapping[str, list[_Entry]]:
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, list[_Entry]])


LADDER = (10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000, 100_000_000)
EPSILONS = (0.1, 1.0, 5.0)
NONE = 1000.0
"""Stands for no privacy where an algorithm has to have some noise."""
LEARNERS = ("residual", "adadpals")
TRIVIAL = "bias-private"
ALGORITHMS = (*LEARNERS, TRIVIAL)
OWN_BIAS = "user-item-bias"
"""The trivial model without privacy: item means, and a bias of her own for everybody."""
REFERENCES = (OWN_BIAS, ALS)
_MOMENTS = ("residual", TRIVIAL)
"""Those that release the moments of all ratings first."""
USUAL_MOST = 100_000
MEAN, ITEMS = 40.0, 3449
DELTA = 1e-9
"""At every number of people: below 1 / n even of the largest."""
MOST_FITTED = 1_000_000
"""Models without privacy, which hardly change any more, are fitted to at most so many people."""
JUDGED = 50_000
"""Where there are more people the error is that of these; of made-up people the first ones."""
SEVERAL_SEEDS_UP_TO = 30_000
_FEWER_PEOPLE: Mapping[str, int] = {"adadpals": 10_000_000}
"""People at most: it sets out from nothing, and takes a dozen passes over all their ratings."""
UNSETTLED_FROM = 100_000_000
"""From so many people on only that is run whose noise still costs."""
SETTLED = 0.001
"""How near to its own error with next to no noise, stars, an epsilon is whose noise costs nothing more."""
_ALS_SETTINGS = {"rank": 16, "rounds": 32}
"""Chosen as ``settings.toml`` was; with the ridges as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Whose ratings a part is run on. Public, but for the ratings."""

    label: str
    """Of the part's file."""
    users: int
    data: DataConfig

    @property
    def streamed(self) -> bool:
        """Whether they are made block by block, as they are needed."""
        return self.data.source.startswith(PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All runs on some people."""

    people: People
    private: Mapping[tuple[str, float], Sequence[Ran]]
    """By algorithm and epsilon, one for each seed."""
    references: Mapping[str, Ran]
    """Without privacy."""

    def rmse(self, algorithm: str, epsilon: float) -> float | None:
        """Mean over the seeds; None where it was not run on so many."""
        runs = self.private[algorithm, epsilon]
        return float(np.mean([ran.rmse for ran in runs])) if runs else None

    def settled(self, algorithm: str, epsilon: float) -> bool:
        """Whether its noise costs nothing more, or it was not run already."""
        rmse, without = self.rmse(algorithm, epsilon), self.rmse(algorithm, NONE)
        return rmse is None or without is None or rmse - without <= SETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run. Public."""

    epsilons: tuple[float, ...]
    seeds: int
    workers: int
    items: int = ITEMS
    mean: float = MEAN
    algorithms: tuple[str, ...] = ALGORITHMS
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the learners, for tests."""

    def made_up(self, users: int) -> People:
        """So many made-up people."""
        config = PeopleConfig(users=users, items=self.items, mean=self.mean)
        return People(label=f"made-up-{users}", users=users, data=DataConfig(source=config.text))

    def run(self, people: People) -> RunConfig:
        """Streamed, so that memory does not grow with people; their error is judged on some of them."""
        judged = JUDGED if people.users > JUDGED else None
        return RunConfig(
            workers=self.workers,
            streamed=people.streamed,
            judged_users=judged if people.streamed else None,
            baselines=False,
            evaluate_rounds=False,
        )

    def seeds_of(self, people: People) -> range:
        """Several where noise decides and runs are quick."""
        return range(self.seeds if people.users <= SEVERAL_SEEDS_UP_TO else 1)

    def private(self, people: People, algorithm: str, epsilon: float, seed: int) -> Part:
        """A private run on all of them."""
        tuned = settings_for(algorithm, epsilon, people.users)
        settings = {**tuned.settings, **_less_for_moments(algorithm, epsilon, people.users)}
        settings |= self.overrides if algorithm in LEARNERS else {}
        return Part(
            name=f"{people.label}-{algorithm}-epsilon-{epsilon:g}-seed-{seed}",
            config=SimulationConfig(
                algorithm=algorithm,
                seed=seed,
                data=people.data,
                privacy=PrivacyConfig(epsilon=epsilon, delta=DELTA, shares=dict(tuned.shares)),
                settings=settings,
                run=self.run(people),
            ),
        )

    def reference(self, people: People, name: str) -> Part:
        """A model without privacy of at most ``MOST_FITTED`` of them."""
        return Part(
            name=f"{people.label}-{name}",
            config=SimulationConfig(
                algorithm=name,
                data=people.data,
                settings=dict(_ALS_SETTINGS) if name == ALS else {},
                run=self.run(people),
            ),
        )


def _less_for_moments(algorithm: str, epsilon: float, users: int) -> dict[str, float]:
    """The share of mean and deviation of all ratings, where what is usual is for far fewer people than these.

    It is what their accuracy takes from a thousand users: of a small budget a half.
    """
    if algorithm not in _MOMENTS:
        return {}
    mu = 1.0 / noise_multipliers(epsilon, DELTA, {"all": 1.0})["all"]
    usual, needed = moments_share(mu), moments_share(mu * users / USERS_ENOUGH)
    return {"moments_share": needed} if needed < usual else {}


def ladder_to(most: float) -> tuple[int, ...]:
    """Numbers of people up to the most that are asked for."""
    return tuple(step for step in LADDER if step <= most)


def measured(plan: Plan, parts: Parts, every: Sequence[People], setting: Setting) -> list[Measured]:
    """Run everything, smallest first."""
    names = [(a, e) for a in plan.algorithms for e in (*plan.epsilons, NONE)]
    queue = _Queue(parts, setting, sum(len(_references_of(people)) for people in every))
    queue.total += sum(len(names) * len(plan.seeds_of(people)) for people in every)
    found = list[Measured]()
    for people in every:
        run = {key: plan.seeds_of(people) if _is_run(people, found, *key) else () for key in names}
        queue.total -= sum(len(plan.seeds_of(people)) - len(seeds) for seeds in run.values())
        references = {name: queue.ran(plan.reference(people, name)) for name in _references_of(people)}
        private = {
            key: [queue.ran(plan.private(people, *key, seed)) for seed in seeds] for key, seeds in run.items()
        }
        found.append(Measured(people=people, private=private, references=references))
    return found


def _references_of(people: People) -> Sequence[str]:
    return REFERENCES if people.users <= MOST_FITTED else ()


@dataclass(slots=True)
class _Queue:
    """Runs, told one after the other."""

    parts: Parts
    setting: Setting
    total: int
    """Less what turned out not to be worth running."""
    done: int = 0

    def ran(self, part: Part) -> Ran:
        self.setting.on_progress(part.name, self.done, self.total)
        self.done += 1
        return self.parts.ran(part)


def _is_run(people: People, fewer: Sequence[Measured], algorithm: str, epsilon: float) -> bool:
    """Whether it is run on so many: of few everything is."""
    if people.users > _FEWER_PEOPLE.get(algorithm, people.users):
        return False
    return people.users < UNSETTLED_FROM or not fewer or not fewer[-1].settled(algorithm, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Between the trivial model and the best, both without noise, of as many people as they were fitted to."""

    trivial: float
    best: float

    @property
    def is_one(self) -> bool:
        """Whether there is anything to close."""
        return self.best < self.trivial

    def closed(self, rmse: float) -> float:
        """How much of it an error closes; below 0 for what is worse than the trivial model."""
        return (self.trivial - rmse) / (self.trivial - self.best)


def gap_of(found: Sequence[Measured]) -> Gap:
    """The gap at the largest number of people that models without privacy were fitted to.

    The best is the best of ALS and of what learns privately, without noise worth naming.
    """
    last = [one for one in found if one.references][-1]
    learners = {name for name, _ in last.private if name in LEARNERS}
    without_noise = [last.rmse(name, NONE) for name in learners]
    best = min(last.references[ALS].rmse, *(rmse for rmse in without_noise if rmse is not None))
    return Gap(trivial=last.references[OWN_BIAS].rmse, best=best)


def people_needed(users: Sequence[int], closed: Sequence[float], share: float) -> str:
    """The number of people at which so much of a gap is closed, on the line between two that were measured.

    Args:
        users: ascending.
        closed: how much of the gap each closes.
        share: how much is wanted.

    Returns:
        Two digits of it; ``<=`` the first where that does already, ``>`` the last where none does: nothing is
        extrapolated.
    """
    for place, value in enumerate(closed):
        if value < share:
            continue
        if place == 0:
            return f"<= {users[0]:,}"
        low, high = closed[place - 1], value
        across = (share - low) / (high - low)
        logarithm = log10(users[place - 1]) + across * (log10(users[place]) - log10(users[place - 1]))
        return _two_digits(10**logarithm)
    return f"> {users[-1]:,}"


def _two_digits(number: float) -> str:
    unit = 10 ** (len(str(int(number))) - 2)
    return f"{round(number / unit) * unit:,}"
