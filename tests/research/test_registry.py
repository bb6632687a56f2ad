"""Experiments are found by paper and figure, and what is not there is answered with what is."""

import pytest

from fedboard.common.errors import InputError
from research import registry
from research.jain import catalogue
from research.registry import PAPERS, experiment_named, experiments_of
from research.shared.experiment import Experiment, Outcome, Setting


def never(setting: Setting) -> Outcome:
    raise AssertionError("looking is not running")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_lists_experiments_of_its_own_under_distinct_names(paper: str) -> None:
    found = experiments_of(paper)

    assert all(experiment.paper == paper for experiment in found)
    assert len({experiment.figure for experiment in found}) == len(found)
    assert all(experiment.title and experiment.data and experiment.minutes > 0 for experiment in found)
    for experiment in found:
        assert experiment_named(paper, experiment.figure) is experiment


def test_unknown_papers_and_figures_are_answered_with_the_list() -> None:
    with pytest.raises(InputError, match="krichene, liu, epasto, jain"):
        experiments_of("none")
    with pytest.raises(InputError, match=r"no figure '9' here; there are 2"):
        experiment_named("jain", "9")


def test_a_number_names_the_group_that_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    group, single = (
        Experiment(paper="jain", figure=figure, title="t", minutes=1.0, data="d", run=never)
        for figure in ("6-10", "7")
    )
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (group, single))

    assert experiment_named("jain", "6-10") is group
    assert experiment_named("jain", "8") is group
    assert experiment_named("jain", "7") is single
    for outside in ("5", "11", "table-7"):
        with pytest.raises(InputError):
            experiment_named("jain", outside)
    assert registry.PAPERS["jain"]
