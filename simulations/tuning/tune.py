"""From a question (which algorithm, on which public data) to ``tuned.toml`` and the evidence beside it."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedboard.common.checks import require_one_of, require_whole
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.tasks.shared.options import checked_options
from fedboard.simulations.config import SimulationConfig, TunedConfig
from fedboard.simulations.datasets import SyntheticConfig
from fedboard.simulations.judging.metrics.registry import main_metric, metric_names
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm
from fedboard.simulations.sweeps.record_file import RecordFile
from fedboard.simulations.tuning.outcome import write_outcome
from fedboard.simulations.tuning.search import OnTrial, Search, Trial, finalists, run_search
from fedboard.simulations.tuning.software import software, source_digest
from fedboard.simulations.tuning.space import (
    SECTIONS,
    Space,
    Value,
    default_space,
    parse_space,
    read_space,
    without,
)
from fedboard.simulations.tuning.trials import for_trials

SYNTHETIC = "synthetic"
_NOBODYS = "the ratings are made up by this program, nobody's data"


class TuneRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a search writes down to be resumed."""

    config: SimulationConfig
    space: dict[str, dict[str, dict[str, list[float | int | bool | str]]]]
    """As in a search file."""
    public: str
    """Why the data may be searched on."""
    metric: str
    trials: int
    seeds: tuple[int, ...]
    search_seed: int
    software: str
    source: str
    """Digest of the code: numbers of different code are not compared."""


_RECORD = RecordFile(name="tune.json", kind=TuneRecord, what="a search")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """A finished search."""

    best: Trial
    shipped: Trial
    finalists: tuple[Trial, ...]
    """Best first."""
    record: TuneRecord
    tuned: Path
    files: tuple[Path, ...]
    """tuned.toml, trials.csv and the pictures."""


def plan_tuning(
    config: SimulationConfig,
    *,
    public: str | None,
    trials: int = 40,
    seeds: tuple[int, ...] = (0, 1, 2),
    search_file: Path | None = None,
    metric: str | None = None,
    search_seed: int = 0,
) -> TuneRecord:
    """Check what is asked for.

    Guarantee: nothing is read but what is made up or said to be public by whoever asks; there is no default for
    that statement.

    Args:
        config: data, algorithm, feedback, epsilon, and settings that stay as they are.
        public: why the data need no protection; may be None for made-up data only.
        trials: settings to try, the shipped ones included; >= 2.
        seeds: of the noise; the later ones are for the best trials.
        search_file: a space in place of the default one.
        metric: name of a validation metric; RMSE or Recall@20 by default.
        search_seed: of the choice of settings; >= 0.

    Raises:
        PrivacyError: data that nobody said to be public.
        InputError: anything else that cannot be searched.
    """
    _require_public(config, public)
    algorithm = chosen_algorithm(config.algorithm)
    if config.privacy.noise != "seeded":
        raise InputError("tuning compares settings under repeatable noise: leave privacy.noise at 'seeded'")
    if trials < 2 or search_seed < 0 or not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InputError("tuning needs at least 2 trials and different seeds >= 0")
    if metric is not None:
        require_one_of("metric", metric, metric_names(config.feedback, "validation"))
    space = default_space(algorithm, config.feedback) if search_file is None else read_space(search_file)
    left = without(space, {"settings": config.settings, "privacy.shares": config.privacy.shares})
    if not left:
        raise InputError(
            "the configuration sets everything that would be searched; nothing is left to choose"
        )
    return TuneRecord(
        config=for_trials(config),
        space=_written(left),
        public=_NOBODYS if public is None else " ".join(public.split()),
        metric=metric or main_metric(config.feedback, "validation"),
        trials=trials,
        seeds=seeds,
        search_seed=search_seed,
        software=software(),
        source=source_digest(),
    )


def tune(
    record: TuneRecord, out: Path, *, jobs: int = 1, resume: bool = False, on_trial: OnTrial | None = None
) -> TuneResult:
    """Search, then write ``tuned.toml``, ``trials.csv`` and a plot of the trials.

    Args:
        record: from ``plan_tuning``.
        out: a record per trial goes to ``out/trials``.
        jobs: trials at a time, >= 1; never changes the result.
        resume: keep what is there.
        on_trial: told about each record.

    Raises:
        InputError: ``out`` is in use, or holds another search.
    """
    require_whole("jobs", jobs)
    _prepare(record, out, resume=resume)
    search = search_of(record)
    trials = run_search(search, out / "trials", jobs=jobs, on_trial=on_trial)
    ranked = finalists(search, trials)
    if not ranked:
        raise InputError(f"no trial could be run with every seed; {out / 'trials'} says why")
    best, shipped = ranked[0], trials[0]
    tuned = provenance(record, best, shipped)
    files = write_outcome(out, search, trials, best, tuned)
    return TuneResult(
        best=best, shipped=shipped, finalists=tuple(ranked), record=record, tuned=files[0], files=files
    )


def search_of(record: TuneRecord) -> Search:
    """The search that a record describes."""
    return Search(
        config=record.config,
        space=parse_space(record.space, source=_RECORD.name),
        metric=record.metric,
        n_trials=record.trials,
        seeds=record.seeds,
        search_seed=record.search_seed,
    )


def read_tune_record(out: Path) -> TuneRecord:
    """The record of the search in a directory.

    Raises:
        InputError: no search is there.
    """
    return _RECORD.read(out)


def provenance(record: TuneRecord, best: Trial, shipped: Trial) -> TunedConfig:
    """Where the best settings come from, for the runs that use them."""
    return TunedConfig(
        data=_described(record.config),
        public=record.public,
        algorithm=record.config.algorithm,
        epsilon=record.config.privacy.epsilon,
        metric=record.metric,
        mean=best.mean(record.metric),
        deviation=best.deviation(record.metric),
        shipped_mean=shipped.mean(record.metric),
        seeds=record.seeds,
        trials=record.trials,
        software=f"{record.software}, source {record.source}",
    )


def _require_public(config: SimulationConfig, public: str | None) -> None:
    if config.data.made_up:
        return
    if public is None or not public.strip():
        raise PrivacyError(
            f"choosing settings on {config.data.source} reads its ratings once per trial, a release that no ledger "
            "books: tune on --data synthetic or on ratings that are public anyway, and say with --public "
            '"..." why they are'
        )


def _described(config: SimulationConfig) -> str:
    """The data in public words: the name of a file, or the size of what is made up."""
    if config.data.source != SYNTHETIC:
        return config.data.source if config.data.made_up else Path(config.data.source).name
    made = checked_options(config.data.synthetic, SyntheticConfig, "data.synthetic")
    return f"{SYNTHETIC} ratings of {made.n_users} users and {made.n_items} items, seed {made.seed}"


def _written(space: Space) -> dict[str, dict[str, dict[str, list[Value]]]]:
    """A space as a search file has it."""
    tables: dict[str, dict[str, dict[str, list[Value]]]] = {}
    names = {section: table for table, section in SECTIONS.items()}
    for key, parameter in space.items():
        section, _, name = key.rpartition(".")
        tables.setdefault(names[section], {})[name] = {parameter.kind: list(parameter.values)}
    return tables


def _prepare(record: TuneRecord, out: Path, *, resume: bool) -> None:
    if resume:
        earlier = read_tune_record(out)
        if earlier.source != source_digest():
            raise InputError(
                f"{out} was begun with other code, whose numbers do not compare; start anew, with another --out"
            )
        different = [
            name for name in record.__struct_fields__ if getattr(earlier, name) != getattr(record, name)
        ]
        if different:
            raise InputError(
                f"{out} holds a search with another {different[0]!r}; resume with the same, or give another --out"
            )
        return
    _RECORD.begin(out, record, room="trials")
