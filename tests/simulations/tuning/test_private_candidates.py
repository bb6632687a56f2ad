"""What a private choice is among, and what it refuses before anything is spent."""

import sys
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.simulations.sweeps.cells import shared_problem
from fedboard.simulations.tuning import private_run, search
from fedboard.simulations.tuning.private_plan import candidate_of, plan_private_tuning
from fedboard.simulations.tuning.private_run import read_private_record
from fedboard.simulations.tuning.trials import for_trials
from tests.simulations.tuning.private_choices import CANDIDATES, planned, tiny, tuned

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"privacy": {"participation": {"kind": "poisson", "probability": 0.5}}},
            PrivacyError,
            "full participation",
        ),
        ({"privacy": {"personal": [{"epsilon": 1.0, "share": 0.5}]}}, PrivacyError, "the same epsilon"),
        ({"feedback": "implicit"}, InputError, "implicit feedback has none"),
        ({"run": {"protocol": "secure-sum"}}, InputError, "under protocol 'trusted'"),
        ({"split": {"validation": 0.0}}, InputError, "set split.validation above 0"),
        ({"split": {"leave_last": 1}}, InputError, "compares on ratings that fell by coins"),
    ],
)
def test_what_is_not_accounted_for_is_refused(
    changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    problem = shared_problem(for_trials(tiny()))

    with pytest.raises(kind, match=message):
        plan_private_tuning(tiny(**changes), problem, candidates=CANDIDATES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": (CANDIDATES[0], CANDIDATES[0])}, "two candidates are the same"),
        ({"candidates": ({},)}, "one changes nothing"),
        ({"candidates": tuple({"settings.item_ridge": float(k)} for k in range(1, 17))}, "among 2 to 16"),
        ({"candidates": ()}, "among 2 to 16"),
        ({"candidates": ({"settings.no_such": 1},)}, r"candidate 1 .* cannot be run: .*nothing was spent"),
        ({"candidates": ({"settings.rounds": 0},)}, r"candidate 1 .* cannot be run"),
    ],
)
def test_candidates_that_cannot_be_tried_are_refused_before_anything_is_spent(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        planned(tiny(), **arguments)


def test_a_candidate_names_settings_and_shares_alone() -> None:
    assert candidate_of({"rounds": 3, "shares.counts": 0.1}, "here") == {
        "settings.rounds": 3,
        "privacy.shares.counts": 0.1,
    }
    with pytest.raises(InputError, match="only settings and shares are chosen"):
        candidate_of({"privacy.epsilon": 3}, "here")


def test_no_sampler_that_learns_from_scores_comes_near_a_private_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would read private ratings once per proposal, which nothing books."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "optuna"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)  # importing it fails

    def refused(*_: object) -> None:
        raise AssertionError("a private choice asked the public search for trials")

    monkeypatch.setattr(search, "_next_batch", refused)

    result = tuned(tiny(), tmp_path / "tune")

    fixed = read_private_record(tmp_path / "tune")
    assert fixed.candidates == result.chosen.candidates == ({}, *CANDIDATES)
    folder = Path(private_run.__file__).parent
    files = list(folder.glob("private_*.py"))
    assert len(files) == 3
    used = [path.name for path in files if "tuning.search" in path.read_text(encoding="utf-8")]
    assert not used
