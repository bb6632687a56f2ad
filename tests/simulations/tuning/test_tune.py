"""Tuning: public data alone, the test part out of sight, the same search however it runs, a file that runs."""

import csv
import json
import math
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.simulations.config import SimulationConfig, parse_config, read_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.reports.wording import lower_is_better
from fedboard.simulations.simulate import simulate
from fedboard.simulations.tuning import tune as tune_module
from fedboard.simulations.tuning.search import Trial, TuneRecord, _next_batch
from fedboard.simulations.tuning.trials import Choice, TrialRecord, judged_on_validation
from fedboard.simulations.tuning.tune import TuneResult, plan_tuning, read_tune_record, tune

pytestmark = pytest.mark.slow

TINY = {
    "algorithm": "adadpals",
    "data": {"synthetic": {"n_users": 300, "n_items": 60, "mean_ratings_per_user": 15.0}},
    "settings": {"rank": 3, "rounds": 2},
    "run": {"kernels": "numpy"},
}
SPACE = """
[settings]
clip_norm = { log = [0.1, 2.0] }
item_ridge = { log = [5.0, 200.0] }
weight_exponent = { choice = [0.0, 0.25] }
[shares]
quadratic = { uniform = [0.1, 0.6] }
"""


def planned(config: SimulationConfig, folder: Path, *, trials: int = 6, space: str = SPACE) -> TuneRecord:
    (folder / "search.toml").write_text(space)
    return plan_tuning(config, public=None, trials=trials, seeds=(0, 1), search_file=folder / "search.toml")


def all_trials(out: Path) -> dict[str, TrialRecord]:
    """By file name, without what a clock says."""
    records = {
        path.name: msgspec.json.decode(path.read_bytes(), type=TrialRecord)
        for path in sorted((out / "trials").iterdir())
    }
    return {name: msgspec.structs.replace(record, seconds=0.0) for name, record in records.items()}


@pytest.fixture
def tiny() -> SimulationConfig:
    """AdaDPALS at epsilon 5; rank and rounds stay as they are."""
    return parse_config(TINY)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneResult, Path]:
    """A finished search. To be read only."""
    folder = tmp_path_factory.mktemp("finished")
    return tune(planned(parse_config(TINY), folder), folder / "tune"), folder / "tune"


def with_source(config: SimulationConfig, source: str) -> SimulationConfig:
    return msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, source=source))


def searched(search: TuneRecord, score: Callable[[Choice], float]) -> list[Trial]:
    """A search whose trials are a formula, for what the sampler proposes."""
    trials: list[Trial] = []
    while len(trials) < search.trials:
        for trial in _next_batch(search, trials):
            settings = {"clip_norm": 30.0, **{k.partition(".")[2]: v for k, v in trial.choice.items()}}
            found = score(settings)
            metrics = {} if math.isnan(found) else {search.metric: found}
            record = TrialRecord(
                number=trial.number, seed=0, choice=dict(trial.choice), metrics=metrics, settings=settings
            )
            trials.append(Trial(number=trial.number, choice=trial.choice, records=[record]))
    return trials


@pytest.mark.parametrize("metric", ["validation_rmse", "validation_recall@20"])
def test_the_sampler_learns_which_way_is_better_from_one_seed(
    tiny: SimulationConfig, tmp_path: Path, metric: str
) -> None:
    """The shipped value lies outside of the space here, and a quarter of it fails."""
    space = """
[settings]
clip_norm = { log = [0.1, 10.0] }
rank = { int = [2, 9] }
mode = { choice = ["a", "b"] }
"""
    sign = 1.0 if lower_is_better(metric) else -1.0

    def score(settings: Choice) -> float:
        if float(settings["clip_norm"]) > 3 and "rank" in settings:
            return math.nan
        return sign * (abs(math.log(float(settings["clip_norm"]))) + (settings.get("mode") == "b"))

    bare = msgspec.structs.replace(tiny, settings={})
    search = msgspec.structs.replace(planned(bare, tmp_path, trials=36, space=space), metric=metric)
    one, same = searched(search, score), searched(search, score)
    seeded = msgspec.structs.replace(search.config, seed=6)
    other = searched(msgspec.structs.replace(search, config=seeded), score)

    assert [trial.choice for trial in one] == [trial.choice for trial in same]
    assert [trial.choice for trial in one[1:]] != [trial.choice for trial in other[1:]]
    random, learnt = one[1:12], one[18:]
    for trials in (random, learnt):
        assert {str(trial.choice["settings.mode"]) for trial in trials} <= {"a", "b"}
        assert all(0.1 <= float(trial.choice["settings.clip_norm"]) <= 10 for trial in trials)
        assert all(type(trial.choice["settings.rank"]) is int for trial in trials)
    off = [
        np.median([abs(math.log(float(trial.choice["settings.clip_norm"]))) for trial in trials])
        for trials in (random, learnt)
    ]
    assert off[1] < off[0]
    assert sum(trial.choice["settings.mode"] == "a" for trial in learnt) > len(learnt) / 2


@pytest.mark.parametrize("public", [None, "", "  "])
def test_ratings_that_nobody_calls_public_are_refused_unread(
    tiny: SimulationConfig, public: str | None
) -> None:
    with pytest.raises(PrivacyError, match=r"a release that no ledger books: .* --public"):
        plan_tuning(with_source(tiny, "no-such-file.csv"), public=public)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 1}, "at least 2 trials"),
        ({"seeds": (0, 0)}, "different seeds"),
        ({"seeds": ()}, "different seeds"),
    ],
)
def test_a_search_that_cannot_be_run_is_refused(
    tiny: SimulationConfig, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan_tuning(tiny, public=None, **arguments)  # type: ignore[arg-type]


def test_only_private_algorithms_with_repeatable_noise_are_tuned(tiny: SimulationConfig) -> None:
    secure = msgspec.structs.replace(tiny.privacy, noise="secure")

    with pytest.raises(InputError, match=r"algorithm must be one of .*, got 'als'"):
        plan_tuning(msgspec.structs.replace(tiny, algorithm="als"), public=None)
    with pytest.raises(InputError, match="repeatable noise"):
        plan_tuning(msgspec.structs.replace(tiny, privacy=secure), public=None)


def test_the_best_trial_is_at_least_as_good_as_what_is_shipped(finished: tuple[TuneResult, Path]) -> None:
    result, out = finished
    metric = result.record.metric

    means = [trial.mean(metric) for trial in result.finalists]

    assert means == sorted(means)
    assert result.best is result.finalists[0]
    assert result.shipped in result.finalists
    assert result.shipped.choice == {}
    assert all(len(trial.records) == 2 for trial in result.finalists)
    rows = list(csv.DictReader((out / "trials.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert float(rows[result.best.number][metric]) == means[0]
    assert {path.name for path in result.files} == {"tuned.toml", "trials.csv"}


def test_tuned_settings_run_on_other_ratings_and_say_where_they_come_from(
    finished: tuple[TuneResult, Path], tmp_path: Path
) -> None:
    result, _ = finished
    raw = read_config(result.tuned)
    mine = {"synthetic": {"n_users": 200, "n_items": 40, "mean_ratings_per_user": 12.0, "seed": 7}}
    config = parse_config({**raw, "data": mine, "run": {"kernels": "numpy", "baselines": False}})

    run = simulate(config, tmp_path / "run", report=False)

    assert config.tuned is not None
    assert config.tuned.mean == result.best.mean("validation_rmse")
    assert set(raw["settings"]) == {"rank", "rounds", "clip_norm", "item_ridge", "weight_exponent"}
    assert set(raw["privacy"]["shares"]) == {"quadratic"}
    for key, value in result.best.choice.items():
        section = raw["settings"] if key.startswith("settings.") else raw["privacy"]["shares"]
        assert section[key.rpartition(".")[2]] == value
    told = [sentence for sentence in run.certificate.assumptions if "fedboard tune" in sentence]
    assert len(told) == 1
    assert "among 6, by validation_rmse on synthetic ratings of 300 users and 60 items, seed 0" in told[0]
    assert told[0].endswith("because: the ratings are made up by this program, nobody's data.")
    assert run.certificate.holds


def test_a_search_is_the_same_with_two_processes_and_after_an_interruption(
    finished: tuple[TuneResult, Path], tiny: SimulationConfig, tmp_path: Path
) -> None:
    first, out = finished
    (tmp_path / "spread").mkdir()
    other = tmp_path / "spread" / "tune"
    tune(planned(tiny, tmp_path / "spread"), other, jobs=2)
    spread = all_trials(other)
    lost = [path for path in (other / "trials").iterdir() if path.name > "0004" or "seed1" in path.name]
    kept = {path: path.stat().st_mtime_ns for path in (other / "trials").iterdir() if path not in lost}
    for path in lost:
        path.unlink()

    told: list[TrialRecord] = []
    again = tune(read_tune_record(other), other, resume=True, on_trial=lambda trial, kept: told.append(trial))

    assert spread == all_trials(out) == all_trials(other)
    assert again.best.choice == first.best.choice
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(told) == len(spread)


def test_a_search_never_sees_the_test_part(tiny: SimulationConfig, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    user, item = (part.astype(np.int32) for part in np.nonzero(rng.random((120, 30)) < 0.4))
    test = rng.random(user.size) < 0.2
    rating = rng.integers(1, 6, user.size).astype(np.float32)
    trials = []
    for name, judged in (("a", rating), ("b", 6 - rating)):
        path = tmp_path / name / "public.npz"
        path.parent.mkdir()
        np.savez(
            path,
            **{"user": user[~test], "item": item[~test], "rating": rating[~test], "item_id": np.arange(30)},
            **{"test_user": user[test], "test_item": item[test], "test_rating": judged[test]},
        )
        (path.parent / "search.toml").write_text(SPACE)
        record = plan_tuning(
            with_source(tiny, str(path)),
            public="drawn at random",
            trials=2,
            seeds=(0,),
            search_file=path.parent / "search.toml",
        )
        tune(record, path.parent / "tune")
        trials.append(all_trials(path.parent / "tune"))

    assert trials[0] == trials[1]
    assert all(0 < record.metrics["validation_rmse"] < 4 for record in trials[0].values())


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_what_a_trial_is_judged_on_is_the_validation_part(tiny: SimulationConfig, feedback: str) -> None:
    config = msgspec.convert({**msgspec.to_builtins(tiny), "feedback": feedback}, SimulationConfig)
    problem = load_problem(config)

    judged = judged_on_validation(problem).split

    assert judged.test is problem.split.validation
    assert judged.train is problem.split.train


def test_settings_that_do_not_fit_are_failed_trials_and_never_chosen(
    tiny: SimulationConfig, tmp_path: Path
) -> None:
    space = "[shares]\nquadratic = { choice = [0.5, 1.5] }\n"

    result = tune(planned(tiny, tmp_path, trials=6, space=space), tmp_path / "tune")

    failed = [record for record in all_trials(tmp_path / "tune").values() if record.error is not None]
    assert failed
    assert all("shares.quadratic must be in (0, 1)" in str(record.error) for record in failed)
    assert result.best.choice.get("privacy.shares.quadratic") != 1.5
    assert "shares.quadratic must be" in (tmp_path / "tune" / "trials.csv").read_text()


def test_shipped_settings_that_cannot_be_run_end_the_search(tiny: SimulationConfig, tmp_path: Path) -> None:
    broken = msgspec.structs.replace(tiny, settings={**tiny.settings, "user_ridge": -1.0})

    with pytest.raises(
        InputError, match="the shipped settings cannot be run on this data: user_ridge must be"
    ):
        tune(planned(broken, tmp_path, trials=2), tmp_path / "tune")


def test_an_unknown_metric_is_refused_with_those_there_are(tiny: SimulationConfig, tmp_path: Path) -> None:
    record = msgspec.structs.replace(planned(tiny, tmp_path, trials=2), metric="recall@20")

    with pytest.raises(InputError, match="metric must be one of validation_mae, validation_rmse"):
        tune(record, tmp_path / "tune")


def test_directories_in_use_and_other_searches_are_refused(
    tiny: SimulationConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = planned(tiny, tmp_path, trials=2), tmp_path / "tune"
    tune(record, out)

    with pytest.raises(InputError, match="is in use"):
        tune(record, out)
    with pytest.raises(InputError, match="holds a search with another 'trials'"):
        tune(msgspec.structs.replace(record, trials=3), out, resume=True)
    with pytest.raises(InputError, match="holds no search"):
        tune(record, tmp_path / "nothing", resume=True)
    with pytest.raises(InputError, match="jobs must be"):
        tune(record, tmp_path / "other", jobs=0)
    monkeypatch.setattr(tune_module, "source_digest", lambda: "another")
    with pytest.raises(InputError, match="begun with other code"):
        tune(record, out, resume=True)


def test_what_is_written_is_toml_whatever_the_statement_says(tiny: SimulationConfig, tmp_path: Path) -> None:
    statement = 'said "public"\\ by Zoë,\n on two lines'
    (tmp_path / "search.toml").write_text(SPACE)
    record = plan_tuning(tiny, public=statement, trials=2, seeds=(0,), search_file=tmp_path / "search.toml")

    result = tune(record, tmp_path / "tune")

    stored = tomllib.loads(result.tuned.read_text(encoding="utf-8"))
    assert stored["tuned"]["public"] == 'said "public"\\ by Zoë, on two lines'
    assert json.loads((tmp_path / "tune" / "tune.json").read_text())["public"] == stored["tuned"]["public"]
