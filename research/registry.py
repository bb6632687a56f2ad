"""Which experiments there are, by paper and figure."""

import re
from collections.abc import Callable

from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from research.shared.experiment import Experiment


def _krichene() -> tuple[Experiment, ...]:
    from research.krichene.catalogue import EXPERIMENTS

    return EXPERIMENTS


def _liu() -> tuple[Experiment, ...]:
    from research.liu.catalogue import EXPERIMENTS

    return EXPERIMENTS


def _epasto() -> tuple[Experiment, ...]:
    from research.epasto.catalogue import EXPERIMENTS

    return EXPERIMENTS


def _jain() -> tuple[Experiment, ...]:
    from research.jain.catalogue import EXPERIMENTS

    return EXPERIMENTS


def _population() -> tuple[Experiment, ...]:
    from research.population.catalogue import EXPERIMENTS

    return EXPERIMENTS


_CATALOGUES: dict[str, Callable[[], tuple[Experiment, ...]]] = {
    "krichene": _krichene,
    "liu": _liu,
    "epasto": _epasto,
    "jain": _jain,
    "population": _population,
}

PAPERS = {
    "krichene": "Krichene et al. 2023, Multi-Task Differential Privacy Under Distribution Skew",
    "liu": "Liu, Wang, Smola 2015, Fast Differentially Private Matrix Factorization",
    "epasto": "Epasto et al. 2020, Smoothly Bounding User Contributions in Differential Privacy",
    "jain": "Jain et al. 2021, Differentially Private Model Personalization",
}
"""Who wrote what, by the name of the paper on the command line."""
OWN = {"population": "How many people a private recommender needs; of no paper, on made-up people"}
"""Experiments of ours, by the name that stands in a paper's place."""


def experiments_of(paper: str) -> tuple[Experiment, ...]:
    """The experiments of one paper; other papers' code is not loaded.

    Raises:
        InputError: there is no such paper; the sentence lists those there are.
    """
    if paper not in _CATALOGUES:
        meant = did_you_mean(paper, _CATALOGUES)
        raise InputError(f"there is no paper {paper!r} here; there are {', '.join(_CATALOGUES)}{meant}")
    return _CATALOGUES[paper]()


def experiment_named(paper: str, figure: str) -> Experiment:
    """One experiment by its figure; a number within a group (``7`` of ``6-10``) names the group.

    Raises:
        InputError: no such paper or figure; the sentence lists those there are.
    """
    candidates = experiments_of(paper)
    exact = [candidate for candidate in candidates if candidate.figure == figure]
    matching = exact or [candidate for candidate in candidates if _within(figure, candidate.figure)]
    if not matching:
        known = ", ".join(candidate.figure for candidate in candidates) or "none yet"
        raise InputError(f"{paper} has no figure {figure!r} here; there are {known}")
    return matching[0]


def _within(figure: str, group: str) -> bool:
    bounds = re.fullmatch(r"(\d+)-(\d+)", group)
    return bounds is not None and figure.isdecimal() and int(bounds[1]) <= int(figure) <= int(bounds[2])
