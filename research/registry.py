"""Which experiments there are, by paper and figure."""

import tomllib
from functools import cache
from pathlib import Path

import msgspec

from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from research.shared.experiment import Experiment

PAPERS = {
    "krichene": "Krichene et al. 2023, Multi-Task Differential Privacy Under Distribution Skew",
    "liu": "Liu, Wang, Smola 2015, Fast Differentially Private Matrix Factorization",
    "epasto": "Epasto et al. 2020, Smoothly Bounding User Contributions in Differential Privacy",
    "jain": "Jain et al. 2021, Differentially Private Model Personalization",
    "population": "How many people a private recommender needs; of no paper, on made-up people",
}
"""Who wrote what, by the name on the command line; the last is ours."""


@cache
def _tables() -> dict[str, list[dict[str, object]]]:
    return tomllib.loads(Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8"))


def experiments_of(paper: str) -> tuple[Experiment, ...]:
    """The experiments of one paper; their code is not loaded.

    Raises:
        InputError: there is no such paper; the sentence lists those there are.
    """
    if paper not in PAPERS:
        meant = did_you_mean(paper, PAPERS)
        raise InputError(f"there is no paper {paper!r} here; there are {', '.join(PAPERS)}{meant}")
    return tuple(msgspec.convert({"paper": paper, **table}, Experiment) for table in _tables()[paper])


def experiment_named(paper: str, figure: str) -> Experiment:
    """One experiment by its figure.

    Raises:
        InputError: no such paper or figure; the sentence lists those there are.
    """
    known = {each.figure: each for each in experiments_of(paper)}
    if figure not in known:
        raise InputError(f"{paper} has no figure {figure!r} here; there are {', '.join(known)}")
    return known[figure]
