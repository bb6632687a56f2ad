"""What a finished run has to say, on a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.common.certificate import Certificate
    from fedboard.simulations.config import RunConfig, SimulationConfig
    from fedboard.simulations.simulate import RunResult

_NOTHING_JUDGED = (
    "Nothing was judged: no rating is held out, so there is no number to say how good this board is. "
    "It takes more ratings, or larger shares in [split]."
)
_NO_PRIVACY = "no privacy"
_NONE: Mapping[str, Mapping[str, float]] = {}


def private_summary(
    config: "SimulationConfig", result: "RunResult", others: Mapping[str, Mapping[str, float]] = _NONE
) -> tuple[dict[str, Any], str]:
    """Record and text of a run with a guarantee; ``others``: metrics of more algorithms at the same epsilon."""
    from fedboard.simulations.runs.algorithm_choice import label_of

    claim, final = result.certificate.claim, result.final
    made = {"Board": newest_board(result), "Report": result.report}
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
        "seconds": final["seconds_total"],
    }
    text = "\n\n".join(
        (
            f"{guarantee_text(result)}\n{_added_up(config.run)}",
            metrics_text(label_of(config.algorithm), f"epsilon {claim.epsilon:.4g}", final, others),
            "\n".join(f"{name:7} {path}" for name, path in made.items() if path is not None),
        )
    )
    return record, text


def reference_summary(
    config: "SimulationConfig", place: Path, final: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Record and text of a run without any guarantee, which says so."""
    record = {
        "run": str(place),
        "algorithm": config.algorithm,
        "guarantee": None,
        "label": _NO_PRIVACY,
        "metrics": dict(final["metrics"]),
        "seconds": final["seconds_total"],
    }
    table = metrics_text(config.algorithm, _NO_PRIVACY, final)
    return record, f"No privacy: {config.algorithm} was fitted to the raw ratings, for comparison.\n\n{table}"


def newest_board(result: "RunResult") -> Path:
    """The file of the run's last board."""
    return result.path / "boards" / f"board-{result.board.version:04d}.board"


def guarantee_text(result: "RunResult") -> str:
    """The promise, and what it is worth with this noise."""
    certificate = result.certificate
    claim = certificate.claim
    lines = [
        f"Guarantee: ({claim.epsilon:.4g}, {claim.delta:g})-differential privacy for each {claim.unit} with all "
        f"ratings, adjacency {claim.adjacency},",
        _composed(certificate),
    ]
    if not certificate.private:
        lines.append(
            "The noise can be reproduced from the seed: a simulation. Real users need --noise secure."
        )
    return "\n".join(lines)


def metrics_text(
    name: str, guarantee: str, final: Mapping[str, Any], others: Mapping[str, Mapping[str, float]] = _NONE
) -> str:
    """A table of the run's metrics, with those of others under the same guarantee and of the baselines below."""
    from fedboard.simulations.drawing.wording import metric_column

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
    table = aligned(headers, rows, right=range(2, len(headers)))
    return f"{table}\n(on held-out data; these numbers are not private, for simulations only)"


def _values(metrics: Mapping[str, float], names: list[str]) -> tuple[str, ...]:
    return tuple(f"{metrics[name]:.4f}" if name in metrics else "-" for name in names)


def _added_up(run: "RunConfig") -> str:
    """By which protocol, since it decides who must be trusted."""
    clients = "" if run.clients is None else f" among {run.clients} clients"
    lost = "" if not run.dropout else f", {run.dropout:.0%} of whom were lost in each round"
    return f"Added up by protocol {run.protocol}{clients}{lost}; the certificate says whom that trusts."


def _composed(certificate: "Certificate") -> str:
    number = len(certificate.releases)
    if certificate.composition.exact:
        return f"exact composition of {number} releases."
    return f"composition of {number} releases; who takes part is drawn, and must stay secret if by coins."
