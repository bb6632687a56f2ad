"""What a finished run has to say, on a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedboard.cli.text import aligned, bad, good

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.simulate import RunResult

Metrics = Mapping[str, Mapping[str, float]]
_NOTHING_JUDGED = (
    "Nothing was judged: no rating is held out, so there is no number to say how good this board is. "
    "It takes more ratings, or larger shares in [split]."
)
_SEEDED = (
    "The noise can be reproduced from the seed: a simulation. Real users need --noise secure, and "
    "a list of items that stands apart from the ratings: --set data.catalogue=listed (data.titles=FILE)."
)
_NO_PRIVACY = "no privacy"
_METRICS_ABREAST = 5
"""What fits beside model and guarantee in about 110 columns."""


class Told(NamedTuple):
    """What there is to say about a run."""

    record: dict[str, Any]
    """JSON-able."""
    text: str
    verdict: str = ""
    """One sentence; empty where there is nothing to hold the run against."""


def private_summary(
    config: "SimulationConfig", result: "RunResult", others: Metrics, *, page: Path | None = None
) -> Told:
    """What a run with a guarantee has to say.

    Args:
        config: of the run.
        result: of the run.
        others: metrics of more algorithms at the same epsilon.
        page: the board's page, if one was written.
    """
    from fedboard.common.algorithms.registry import floor_names
    from fedboard.simulations.evaluation.verdict import verdict_of
    from fedboard.simulations.runs.calibrated import chosen_on_examples, label_of

    claim, final, baselines = result.certificate.claim, result.final, result.final.get("baselines", {})
    board = result.path / "boards" / f"board-{result.board.version:04d}.board"
    floors = {name: others[name] for name in floor_names(config.feedback) if name in others}
    verdict = verdict_of(
        final["metrics"], epsilon=config.privacy.epsilon, floors=floors, references=baselines
    )
    record = {
        "run": str(result.path),
        "algorithm": config.algorithm,
        "guarantee": {
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "adjacency": claim.adjacency,
            "unit": claim.unit,
        },
        "noise_private": result.certificate.private,
        "board": str(board),
        "board_digest": result.board.digest,
        "certificate": str(result.path / "certificate.json"),
        "report": None if result.report is None else str(result.report),
        "metrics": dict(final["metrics"]),
        "baselines": dict(baselines),
        "beside": {name: dict(metrics) for name, metrics in others.items()},
        "page": None if page is None else str(page),
        "verdict": None if verdict is None else verdict.sentence,
        "seconds": final["seconds_total"],
    }
    table = metrics_text(
        [(label_of(config.algorithm), final["metrics"]), *others.items()],
        f"epsilon {claim.epsilon:.4g}",
        baselines,
        of_labels=chosen_on_examples(config.algorithm) is not None,
    )
    made = {"Board": board, "Report": result.report, "Page": page}
    files = "\n".join(f"{name:7} {path}" for name, path in made.items() if path is not None)
    told = ""
    if verdict is not None:
        told = f"{(good if verdict.good else bad)('Verdict:')} {verdict.sentence}"
    return Told(record, "\n\n".join((_guarantee_text(config, result), table, files)), told)


def reference_summary(config: "SimulationConfig", place: Path, final: Mapping[str, Any]) -> Told:
    """What a run without any guarantee has to say, and that it has none."""
    record = {
        "run": str(place),
        "algorithm": config.algorithm,
        "guarantee": None,
        "label": _NO_PRIVACY,
        "metrics": dict(final["metrics"]),
        "seconds": final["seconds_total"],
    }
    table = metrics_text([(config.algorithm, final["metrics"])], _NO_PRIVACY, final.get("baselines", {}))
    said = f"No privacy: {config.algorithm} was fitted to the raw ratings, for comparison."
    return Told(record, f"{said}\n\n{table}")


def _guarantee_text(config: "SimulationConfig", result: "RunResult") -> str:
    """The promise, what it is worth with this noise, and by which protocol: it decides who must be trusted."""
    certificate, run = result.certificate, config.run
    number = len(certificate.releases)
    composed = f"composition of {number} releases; who takes part is drawn, and must stay secret if by coins."
    if certificate.commitment.plan is None:
        composed = f"the budget that {number} releases were held against, each before it was made."
    elif certificate.composition.exact:
        composed = f"exact composition of {number} releases."
    clients = "" if run.clients is None else f" among {run.clients} clients"
    lost = "" if not run.dropout else f", {run.dropout:.0%} of whom were lost in each round"
    lines = [f"Guarantee: {certificate.promise},", composed, *([] if certificate.private else [_SEEDED])]
    added_up = f"Added up by protocol {run.protocol}{clients}{lost}; the certificate says whom that trusts."
    return "\n".join((*lines, *certificate.claim.warnings, added_up))


def metrics_text(
    models: list[tuple[str, Mapping[str, float]]],
    guarantee: str,
    baselines: Metrics,
    *,
    of_labels: bool = False,
) -> str:
    """A table of metrics under the same guarantee, the run's first, and of the baselines below.

    It has as few parts of about equal width as a terminal has room for; each begins with who it is.
    """
    from fedboard.simulations.reports.wording import definitions, metric_column

    names = list(models[0][1])
    if not names:
        return _NOTHING_JUDGED
    size = -(-len(names) // -(-len(names) // _METRICS_ABREAST))
    parts = []
    for start in range(0, len(names), size):
        part = names[start : start + size]
        rows = [
            (model, promised, *(f"{metrics[name]:.4f}" if name in metrics else "-" for name in part))
            for promised, listed in ((guarantee, models), (_NO_PRIVACY, list(baselines.items())))
            for model, metrics in listed
        ]
        parts.append(aligned(("model", "guarantee", *map(metric_column, part)), rows))
    meanings = "\n".join(definitions(names, of_labels=of_labels))
    table = "\n\n".join(parts)
    return f"{table}\n(on held-out data; these numbers are not private, for simulations only)\n{meanings}".rstrip()
