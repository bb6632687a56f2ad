"""Figures 1, 2, 3, 6 and 9: accuracy against epsilon and against the exponent mu of the weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedboard.common.algorithms.registry import floor_names
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.simulations.reports.wording import lower_is_better, metric_label
from research.krichene.benchmarks import (
    ALS_LINE,
    GRADIENTS,
    STATISTICS,
    Benchmark,
    BenchmarkAnswer,
    Method,
    with_exponent,
)
from research.shared.experiment import Outcome, Setting
from research.shared.panels import EXPONENTS, Panel, as_text, draw_panels

EPSILONS = (1.0, 5.0, 20.0)
Answers = Mapping[str, Mapping[str, BenchmarkAnswer]]


def trade_off(
    figure: str, feedback: Feedback, paper: str, *, usual: Sequence[float] = EPSILONS
) -> Callable[[Setting], Outcome]:
    """Accuracy against epsilon for adaptive weights, tail sampling and uniform sampling, by both algorithms.

    Args:
        figure: its number.
        feedback: explicit for RMSE, implicit for Recall@20.
        paper: what the paper finds, as a sentence.
        usual: epsilons to compare where nobody asks for others.
    """

    def run(setting: Setting) -> Outcome:
        bench, epsilons = Benchmark(setting, feedback), setting.epsilons_or(*usual)
        answers, als = bench.ask([*STATISTICS, *GRADIENTS], epsilons), bench.ask_als()
        floors = bench.ask([Method(label=n, algorithm=n) for n in floor_names(feedback)], epsilons)
        panels = [
            Panel(
                title=title,
                lines={
                    label: [by[f"{epsilon:g}"].mean for epsilon in epsilons]
                    for label, by in ({m.label: answers[m.label] for m in methods} | floors).items()
                },
                places=epsilons,
                ticks=[f"{epsilon:g}" for epsilon in epsilons],
                across="epsilon",
                up=metric_label(bench.metric),
                level=(ALS_LINE.label, als.mean),
            )
            for title, methods in (("By sufficient statistics", STATISTICS), ("By gradient steps", GRADIENTS))
        ]
        told = [
            _leader(answers, methods, f"{epsilons[0]:g}", bench.metric) for methods in (STATISTICS, GRADIENTS)
        ]
        return Outcome(
            numbers={
                **_numbers(bench, answers),
                "floors": _numbers(bench, floors)[bench.metric],
                "not_private": {ALS_LINE.label: als.mean},
            },
            settings=bench.settings,
            comparison=(
                f"{paper} On {bench.described}, at epsilon {epsilons[0]:g}: {'; '.join(told)}. "
                f"{_weighted(bench, epsilons)}"
            ),
            figures={f"figure-{figure}": draw_panels(panels)},
        )

    return run


def exponent_curves(
    figure: str, feedback: Feedback, paper: str, *, usual: Sequence[float] = EPSILONS
) -> Callable[[Setting], Outcome]:
    """Accuracy against mu for both algorithms; arguments as for ``trade_off``."""

    def run(setting: Setting) -> Outcome:
        bench, epsilons = Benchmark(setting, feedback), setting.epsilons_or(*usual)
        adaptive = (STATISTICS[0], GRADIENTS[0])
        methods = {m.label: [with_exponent(m, exponent) for exponent in EXPONENTS] for m in adaptive}
        answers = bench.ask([m for own in methods.values() for m in own], epsilons)
        means = {
            label: {
                f"{epsilon:g}": {
                    as_text(exponent): answers[m.label][f"{epsilon:g}"].mean
                    for m, exponent in zip(own, EXPONENTS, strict=True)
                }
                for epsilon in epsilons
            }
            for label, own in methods.items()
        }
        best = _best_exponents(means, bench.metric)
        told = "; ".join(
            f"{label} {', '.join(f'{mu} at epsilon {epsilon}' for epsilon, mu in found.items())}"
            for label, found in best.items()
        )
        return Outcome(
            numbers={bench.metric: means, "best_exponent": best},
            settings=bench.settings,
            comparison=f"{paper} On {bench.described} the best mu is: {told}.",
            figures={f"figure-{figure}": draw_panels(_exponent_panels(means, bench.metric))},
        )

    return run


def _exponent_panels(means: Mapping[str, Any], metric: str) -> list[Panel]:
    return [
        Panel(
            title=label,
            lines={f"epsilon {epsilon}": list(curve.values()) for epsilon, curve in curves.items()},
            places=EXPONENTS,
            ticks=[as_text(exponent) for exponent in EXPONENTS],
            across="exponent mu of the weights",
            up=metric_label(metric),
        )
        for label, curves in means.items()
    ]


def _numbers(bench: Benchmark, answers: Answers) -> dict[str, Any]:
    return {
        bench.metric: {m: {e: answer.mean for e, answer in by.items()} for m, by in answers.items()},
        "deviation": {m: {e: answer.deviation for e, answer in by.items()} for m, by in answers.items()},
    }


def _weighted(bench: Benchmark, epsilons: Sequence[float]) -> str:
    """With which mu the adaptive weights ran: at 0 what is compared with sampling are even weights."""
    mus = [float(bench.board(STATISTICS[0], epsilon, 0).config["weight_exponent"]) for epsilon in epsilons]
    even = " (0: everybody's items share evenly)" if 0.0 in mus else ""
    return f"{STATISTICS[0].label} has mu = {', '.join(as_text(mu) for mu in mus)}{even}."


def _leader(answers: Answers, methods: Sequence[Method], epsilon: str, metric: str) -> str:
    values = {m.label: answers[m.label][epsilon].mean for m in methods}
    order = sorted(values, key=lambda label: values[label], reverse=not lower_is_better(metric))
    return ", ".join(f"{label} {values[label]:.4f}" for label in order)


def _best_exponents(means: Mapping[str, Any], metric: str) -> dict[str, dict[str, str]]:
    choose = min if lower_is_better(metric) else max
    return {
        label: {
            epsilon: choose(curve, key=lambda exponent: curve[exponent]) for epsilon, curve in curves.items()
        }
        for label, curves in means.items()
    }
