"""What a finished run has to say, on a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.cli.colours import bad, good
from fedboard.cli.text import aligned, folded

if TYPE_CHECKING:
    from fedboard.common.certificate import Certificate
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.evaluation.verdict import Verdict
    from fedboard.simulations.sections import RunConfig
    from fedboard.simulations.simulate import RunResult

_NOTHING_JUDGED = (
    "Nothing was judged: no rating is held out, so there is no number to say how good this board is. "
    "It takes more ratings, or larger shares in [split]."
)
_NO_PRIVACY = "no privacy"
_NONE: Mapping[str, Mapping[str, float]] = {}
_METRICS_ABREAST = 5
"""What fits beside model and guarantee in about 110 columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What there is to say about a run."""

    record: dict[str, Any]
    """JSON-able."""
    text: str
    verdict: str = ""
    """One sentence; empty where there is nothing to hold the run against."""


def private_summary(
    config: "SimulationConfig",
    result: "RunResult",
    others: Mapping[str, Mapping[str, float]] = _NONE,
    *,
    page: Path | None = None,
) -> Told:
    """What a run with a guarantee has to say.

    Args:
        config: of the run.
        result: of the run.
        others: metrics of more algorithms at the same epsilon.
        page: the board's page, if one was written.
    """
    from fedboard.simulations.runs.calibrated import chosen_on_examples, label_of

    claim, final = result.certificate.claim, result.final
    made = {"Board": newest_board(result), "Report": result.report, "Page": page}
    verdict = _verdict(config, final, others)
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
        "board": str(newest_board(result)),
        "board_digest": result.board.digest,
        "certificate": str(result.path / "certificate.json"),
        "report": None if result.report is None else str(result.report),
        "metrics": dict(final["metrics"]),
        "baselines": dict(final.get("baselines", {})),
        "beside": {name: dict(metrics) for name, metrics in others.items()},
        "page": None if page is None else str(page),
        "verdict": None if verdict is None else verdict.sentence,
        "seconds": final["seconds_total"],
    }
    text = "\n\n".join(
        (
            f"{guarantee_text(result)}\n{_added_up(config.run)}",
            metrics_text(
                label_of(config.algorithm),
                f"epsilon {claim.epsilon:.4g}",
                final,
                others,
                of_labels=chosen_on_examples(config.algorithm) is not None,
            ),
            "\n".join(f"{name:7} {path}" for name, path in made.items() if path is not None),
        )
    )
    return Told(record=record, text=text, verdict="" if verdict is None else _verdict_text(verdict))


def _verdict(
    config: "SimulationConfig", final: Mapping[str, Any], others: Mapping[str, Mapping[str, float]]
) -> "Verdict | None":
    from fedboard.common.algorithms.registry import floor_names
    from fedboard.simulations.evaluation.verdict import verdict_of

    floors = {name: others[name] for name in floor_names(config.feedback) if name in others}
    return verdict_of(
        final["metrics"],
        epsilon=config.privacy.epsilon,
        floors=floors,
        references=final.get("baselines", {}),
    )


def _verdict_text(verdict: "Verdict") -> str:
    colour = good if verdict.good else bad
    return folded(f"Verdict: {verdict.sentence}").replace("Verdict:", colour("Verdict:"), 1)


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
    table = metrics_text(config.algorithm, _NO_PRIVACY, final)
    text = f"No privacy: {config.algorithm} was fitted to the raw ratings, for comparison.\n\n{table}"
    return Told(record=record, text=text)


def newest_board(result: "RunResult") -> Path:
    """The file of the run's last board."""
    return result.path / "boards" / f"board-{result.board.version:04d}.board"


def guarantee_text(result: "RunResult") -> str:
    """The promise, and what it is worth with this noise."""
    certificate = result.certificate
    lines = [
        f"Guarantee: {certificate.promise},",
        _composed(certificate),
    ]
    if not certificate.private:
        lines.append(
            "The noise can be reproduced from the seed: a simulation. Real users need --noise secure, and "
            "a list of items that stands apart from the ratings: --set data.catalogue=listed (data.titles=FILE)."
        )
    return "\n".join((*lines, *certificate.claim.warnings))


def metrics_text(
    name: str,
    guarantee: str,
    final: Mapping[str, Any],
    others: Mapping[str, Mapping[str, float]] = _NONE,
    *,
    of_labels: bool = False,
) -> str:
    """A table of the run's metrics, with those of others under the same guarantee and of the baselines below."""
    from fedboard.simulations.reports.wording import definitions, metric_column

    names = list(final["metrics"])
    if not names:
        return _NOTHING_JUDGED
    rows = [(name, guarantee, *_values(final["metrics"], names))]
    rows += [(other, guarantee, *_values(metrics, names)) for other, metrics in others.items()]
    rows += [
        (other, _NO_PRIVACY, *_values(metrics, names))
        for other, metrics in final.get("baselines", {}).items()
    ]
    headers = ("model", "guarantee", *map(metric_column, names))
    table = "\n\n".join(_parts(headers, rows))
    meanings = "\n".join(definitions(names, of_labels=of_labels))
    return f"{table}\n(on held-out data; these numbers are not private, for simulations only)\n{meanings}".rstrip()


def _parts(headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """The table in as few parts of about equal width as a terminal has room for; each begins with who it is."""
    n_metrics = len(headers) - 2
    size = -(-n_metrics // -(-n_metrics // _METRICS_ABREAST))
    return [
        aligned(
            (*headers[:2], *headers[start : start + size]),
            [(*row[:2], *row[start : start + size]) for row in rows],
            right=range(2, 2 + size),
        )
        for start in range(2, len(headers), size)
    ]


def _values(metrics: Mapping[str, float], names: list[str]) -> tuple[str, ...]:
    return tuple(f"{metrics[name]:.4f}" if name in metrics else "-" for name in names)


def _added_up(run: "RunConfig") -> str:
    """By which protocol, since it decides who must be trusted."""
    clients = "" if run.clients is None else f" among {run.clients} clients"
    lost = "" if not run.dropout else f", {run.dropout:.0%} of whom were lost in each round"
    return f"Added up by protocol {run.protocol}{clients}{lost}; the certificate says whom that trusts."


def _composed(certificate: "Certificate") -> str:
    number = len(certificate.releases)
    if certificate.commitment.plan is None:
        return f"the budget that {number} releases were held against, each before it was made."
    if certificate.composition.exact:
        return f"exact composition of {number} releases."
    return f"composition of {number} releases; who takes part is drawn, and must stay secret if by coins."
