"""What ``python research/run.py krichene`` can do."""

from collections.abc import Callable

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.tuned import TUNED
from research.krichene.curves import EPSILONS, exponent_curves, trade_off
from research.krichene.hyper_parameters import table_2
from research.krichene.improvement import theorem_4_3
from research.krichene.neighbour_lists import neighbour_table
from research.krichene.slices import overlap, slices
from research.krichene.statistics import table_1, task_skew
from research.krichene.synthetic import EPSILONS as SYNTHETIC_EPSILONS
from research.krichene.synthetic import figure_5
from research.krichene.tail import USUAL_EPSILONS as TAIL_EPSILONS
from research.krichene.tail import tail_against_skew
from research.shared.experiment import Experiment, Outcome, Setting

_PAPER = "krichene"
_FIGURE_3 = (5.0, 10.0, 20.0)
_NEAREST = "default ml-1m in $FEDBOARD_DATA, else synthetic."
_EXPLICIT = f"--data ML-10M or any ratings; {_NEAREST}"
_IMPLICIT = f"--data ML-20M or any ratings; {_NEAREST}"
_MSD = f"--data MSD, any plays or any ratings; {_NEAREST}"
_EACH = f"--data ML-10M, ML-20M, MSD or any ratings, each with a --data; {_NEAREST}"
_OWN_TAIL = "--data any ratings, each with a --data; default made up with the sizes of {}, at four skews."
_TAIL = _OWN_TAIL.format("ML-10M")
_TAIL_LISTS = _OWN_TAIL.format("ML-20M")
_RECIPES = (TUNED, "paper")
_WITH_RECIPES = {"1", "2", "3", "4", "6", "8", "9", "10", "table-3", "table-4"}
_FEEDBACKS = {
    _TAIL: (Feedback.EXPLICIT,),
    _TAIL_LISTS: (Feedback.IMPLICIT,),
    _EXPLICIT: (Feedback.EXPLICIT,),
    _IMPLICIT: (Feedback.IMPLICIT,),
    _MSD: (Feedback.IMPLICIT,),
    _EACH: (Feedback.EXPLICIT, Feedback.IMPLICIT),
}


def _entry(
    figure: str,
    title: str,
    minutes: float,
    data: str,
    run: Callable[[Setting], Outcome],
    *epsilons: float,
    one_epsilon: bool = False,
    recipes: tuple[str, ...] = (),
    in_parts: bool = False,
) -> Experiment:
    return Experiment(
        paper=_PAPER,
        figure=figure,
        title=title,
        minutes=minutes,
        data=data,
        run=run,
        feedbacks=_FEEDBACKS.get(data, ()),
        several=data in (_EACH, _TAIL, _TAIL_LISTS),
        epsilons=epsilons,
        one_epsilon=one_epsilon,
        recipes=recipes or (_RECIPES if figure in _WITH_RECIPES else ()),
        in_parts=in_parts,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _entry(
        "1",
        "RMSE against epsilon, three ways to share a user's budget",
        6,
        _EXPLICIT,
        trade_off(
            "1",
            Feedback.EXPLICIT,
            "The paper, on ML-10M: adaptive weights are best at every epsilon, for both algorithms.",
        ),
        *EPSILONS,
    ),
    _entry(
        "2",
        "Recall@20 against epsilon, three ways to share a user's budget",
        8,
        _IMPLICIT,
        trade_off(
            "2",
            Feedback.IMPLICIT,
            "The paper, on ML-20M: adaptive weights are best at every epsilon, by a wide margin.",
        ),
        *EPSILONS,
    ),
    _entry(
        "3",
        "RMSE against the exponent mu of the weights",
        10,
        _EXPLICIT,
        exponent_curves(
            "3",
            Feedback.EXPLICIT,
            "The paper, on ML-10M at epsilon 5, 10 and 20: best between 1/4 and 1/2 for DPALS, at 1/4 for DPSGD, "
            "clearly worse at 1.",
            usual=_FIGURE_3,
        ),
        *_FIGURE_3,
    ),
    _entry(
        "4",
        "RMSE and recall of rare and popular items at epsilon 1",
        5,
        _EACH,
        slices(
            "4",
            "The paper, at epsilon 1: larger mu helps the tail and hurts the head; tail sampling is behind on all "
            "but the top bucket.",
            usual=(1.0,),
        ),
        1.0,
    ),
    _entry(
        "5",
        "Synthetic regressions: RMSE against mu",
        4,
        "always drawn, as in appendix C.",
        figure_5,
        *SYNTHETIC_EPSILONS,
    ),
    _entry(
        "6",
        "Recall@20 against epsilon on the Million Song Data",
        8,
        _MSD,
        trade_off(
            "6",
            Feedback.IMPLICIT,
            "The paper, on MSD: as on ML-20M, adaptive weights are best at every epsilon.",
        ),
        *EPSILONS,
    ),
    _entry("7", "How unevenly the items are rated", 0.2, _EACH, task_skew),
    _entry(
        "8",
        "RMSE and recall of rare and popular items at epsilon 1, 5 and 20",
        14,
        _EACH,
        slices(
            "8",
            "The paper: larger mu helps the tail and hurts the head at every epsilon, and the gap to sampling "
            "narrows as epsilon grows (ML-10M, epsilon 1: at least 21.6 % lower RMSE on bucket 0).",
            usual=EPSILONS,
        ),
        *EPSILONS,
    ),
    _entry(
        "9",
        "Recall@20 against the exponent mu of the weights",
        12,
        _IMPLICIT,
        exponent_curves(
            "9", Feedback.IMPLICIT, "The paper, on ML-20M: best around 1/4, and DPSGD is the more sensitive."
        ),
        *EPSILONS,
    ),
    _entry(
        "10", "How many of an item's neighbours privacy keeps", 4, _IMPLICIT, overlap, 1.0, one_epsilon=True
    ),
    _entry("table-1", "Users, items and observations of data sets", 0.2, _EACH, table_1),
    _entry("table-2", "The algorithms and their hyper-parameters", 0.1, "none: nothing is trained", table_2),
    _entry("table-3", "Neighbours of two films", 2, _IMPLICIT, neighbour_table("3"), 1.0, one_epsilon=True),
    _entry(
        "table-4",
        "Neighbours of three rarer films",
        2,
        _IMPLICIT,
        neighbour_table("4"),
        1.0,
        one_epsilon=True,
    ),
    _entry(
        "tail",
        "RMSE of rare and popular items against mu and the skew of the data",
        45,
        _TAIL,
        tail_against_skew(Feedback.EXPLICIT),
        *TAIL_EPSILONS,
        in_parts=True,
    ),
    _entry(
        "tail-lists",
        "Recall of rare and popular items against mu and the skew of the data",
        90,
        _TAIL_LISTS,
        tail_against_skew(Feedback.IMPLICIT),
        *TAIL_EPSILONS,
        in_parts=True,
    ),
    _entry("theorem-4-3", "What adaptive weights gain in the bounds: R0 and R1", 0.5, _EACH, theorem_4_3),
)
