"""What a run is worth, in a sentence: beside what anybody would do without it, and without privacy."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedboard.simulations.evaluation.metrics.metric import Better
from fedboard.simulations.evaluation.metrics.registry import main_metrics, metric_of

Metrics = Mapping[str, float]

_SIMPLEST = {"item-mean": "item means", "popularity": "what is popular"}
"""References without privacy that learn nothing about taste, and how a sentence calls them."""
_AS_GOOD = 0.0005
"""Differences below this are rounding in the three decimals that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Not private: simulation only."""

    sentence: str
    good: bool
    """Whether it is better than all that is simpler."""


def verdict_of(
    own: Metrics, *, epsilon: float, floors: Mapping[str, Metrics], references: Mapping[str, Metrics]
) -> Verdict | None:
    """Judge a run by the first metric of its feedback.

    Args:
        own: the run's, on the test part.
        epsilon: of the run.
        floors: the simplest private algorithms at the same epsilon, by name.
        references: models without privacy, by name.

    Returns:
        None where nothing was judged, or there is nothing to hold it against.
    """
    metric = next((name for name in main_metrics("test") if name in own), None)
    simplest = next((name for name in _SIMPLEST if metric in references.get(name, {})), None)
    if metric is None or simplest is None:
        return None
    known = metric_of(metric)
    lower = known is not None and known.better is Better.LOWER
    label = "" if known is None else known.label

    def gain(other: Metrics) -> float:
        return other[metric] - own[metric] if lower else own[metric] - other[metric]

    simple = gain(references[simplest])
    found = {name: gain(metrics) for name, metrics in floors.items() if metric in metrics}
    floor = min(found, key=found.__getitem__, default=None)
    best = min((name for name in references if metric in references[name]), key=lambda n: gain(references[n]))
    good = simple >= _AS_GOOD and (floor is None or found[floor] >= _AS_GOOD)
    parts = [f"{_compared(simple)} {_SIMPLEST[simplest]}{_by(simple)}"]
    if floor is not None:
        parts.append(f"{_compared(found[floor])} the best simple private model ({floor}){_by(found[floor])}")
    parts.append(f"{_compared(gain(references[best]))} without privacy ({best}){_by(gain(references[best]))}")
    shown = f"test {label} {own[metric]:.3f} at epsilon {epsilon:.4g}: {'; '.join(parts)}."
    return Verdict(sentence=shown if good else f"{shown} {_advice(floor)}", good=good)


def _compared(gain: float) -> str:
    if abs(gain) < _AS_GOOD:
        return "as good as"
    return "better than" if gain > 0 else "worse than"


def _by(gain: float) -> str:
    return "" if abs(gain) < _AS_GOOD else f" by {abs(gain):.3f}"


def _advice(floor: str | None) -> str:
    instead = "" if floor is None else f"take {floor}, or "
    return f"Not worth it here: {instead}try more users or a larger epsilon."
