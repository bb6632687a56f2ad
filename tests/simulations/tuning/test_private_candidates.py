"""What a private choice is among, and what it refuses before anything is spent."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.simulations.sweeps.cells import shared_problem
from fedboard.simulations.tuning import private, search
from fedboard.simulations.tuning.private.plan import (
    Division,
    candidate_of,
    plan_private_tuning,
    read_candidates,
    settings_of,
)
from fedboard.simulations.tuning.private.run import read_private_record
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
        ({"candidates": (), "trials": 1}, "among 2 to 16"),
        ({"candidates": ({"settings.no_such": 1},)}, r"candidate 1 .* cannot be run: .*nothing was spent"),
        ({"candidates": ({"settings.rounds": 0},)}, r"candidate 1 .* cannot be run"),
    ],
)
def test_candidates_that_cannot_be_tried_are_refused_before_anything_is_spent(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        planned(tiny(), **arguments)


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.1, 0.0), (0.9, 0.1), (-0.1, 0.1), (math.nan, 0.1)])
def test_a_division_leaves_something_for_each(shares: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="leave something for the final run"):
        Division(trials=shares[0], choice=shares[1])


def test_drawn_candidates_follow_from_a_public_seed_and_are_near_the_shipped_ones() -> None:
    one, same, other = (
        planned(tiny(), candidates=(), trials=4, search_seed=seed).candidates for seed in (5, 5, 6)
    )

    assert one == same != other
    assert one[0] == {}
    assert len(one) == 4
    assert not {"settings.rank", "settings.rounds"} & {key for candidate in one for key in candidate}


def test_a_drawn_candidate_is_the_same_step_at_the_budgets_of_its_trial_and_of_the_final_run(
    tmp_path: Path,
) -> None:
    search, names = tmp_path / "search.toml", ("user_ridge", "label_bound", "clip_norm")
    search.write_text("[settings]\n" + "".join(f"{name} = {{ log = [1e-9, 1e9] }}\n" for name in names))
    record = planned(tiny(), candidates=(), trials=8, search_file=search)
    problem = shared_problem(for_trials(tiny()))
    of_trial, of_final = (settings_of(config, problem) for config in (record.trial(0), record.final(0)))

    steps = [
        (one[key] / of_trial[key.partition(".")[2]], last[key] / of_final[key.partition(".")[2]])
        for one, last in zip(record.tried, record.candidates, strict=True)
        for key in last
    ]

    assert [sorted(one) for one in record.tried] == [sorted(one) for one in record.candidates]
    assert record.tried != record.candidates  # what is shipped depends on the budget
    assert len(steps) >= 7
    for tried, final in steps:
        assert tried == pytest.approx(final, rel=2e-3)
        assert tried != 1.0


def test_candidates_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "candidates.toml"
    path.write_text(
        "[[candidate]]\nsettings.rounds = 3\nshares.counts = 0.1\n\n[[candidate]]\nsettings.rounds = 4\n"
    )

    assert read_candidates(path) == (
        {"settings.rounds": 3, "privacy.shares.counts": 0.1},
        {"settings.rounds": 4},
    )
    assert candidate_of({"rounds": 3, "shares.counts": 0.1}, "here") == read_candidates(path)[0]
    path.write_text("[[candidate]]\nprivacy.epsilon = 3\n")
    with pytest.raises(InputError, match="only settings and shares are chosen"):
        read_candidates(path)


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

    result = tuned(tiny(), tmp_path / "tune", candidates=(), trials=3)

    fixed = read_private_record(tmp_path / "tune")
    assert fixed.candidates == result.chosen.candidates == planned(tiny(), candidates=(), trials=3).candidates
    folder = Path(str(private.__file__)).parent
    used = [path.name for path in folder.glob("*.py") if "tuning.search" in path.read_text(encoding="utf-8")]
    assert not used
