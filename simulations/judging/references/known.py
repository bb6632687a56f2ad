"""Which models without privacy there are, by what a rating says, and their settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations import baselines
from fedboard.simulations.judging.references import ceilings

NO_PRIVACY = "no privacy"
"""The label of everything that is made here."""
ALS = "als"
_BY_FEEDBACK: Mapping[Feedback, tuple[str, ...]] = {
    Feedback.EXPLICIT: ("item-mean", "user-item-bias", "local-only", ALS),
    Feedback.IMPLICIT: ("popularity", ALS),
}
_TUNED_WIDTH = 4.0
"""Of the range of the ratings that explicit ALS was tuned on."""
_TUNED_UNOBSERVED = 10.9
"""Weight of all unobserved items of a user over that of those she has, where implicit ALS was tuned: 0.3 x 3 449
items over 95."""
_LEAST_UNOBSERVED = 1e-4
_ALS_SETTINGS = (
    "item_ridge",
    "item_ridge_exponent",
    "rank",
    "rounds",
    "unobserved_weight",
    "user_ridge",
    "user_ridge_exponent",
)


def reference_names(feedback: Feedback) -> tuple[str, ...]:
    """Names of the models without privacy that fit this feedback, simplest first."""
    return _BY_FEEDBACK[feedback]


def ceiling_names(feedback: Feedback) -> tuple[str, ...]:
    """Names of those that are fitted at the best of a small grid, chosen on validation data: slow, and honest."""
    return ceilings.BY_FEEDBACK[feedback]


def every_reference() -> tuple[str, ...]:
    """Names of the models without privacy, whatever the feedback."""
    names = [name for feedback in Feedback for name in (*_BY_FEEDBACK[feedback], *ceiling_names(feedback))]
    return tuple(dict.fromkeys(names))


def require_reference(
    name: str, feedback: Feedback, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """See that there is such a model with such settings; the settings.

    Raises:
        InputError: the model does not fit the feedback, or an unknown setting.
    """
    known_names = (*reference_names(feedback), *ceiling_names(feedback))
    if name not in known_names:
        raise InputError(
            f"{name!r} is not for {feedback} feedback; models without privacy there are {', '.join(known_names)}"
        )
    chosen = dict(settings or {})
    unknown = sorted(set(chosen) - set(_ALS_SETTINGS if name == ALS else ()))
    if unknown:
        known = f"known are {', '.join(_ALS_SETTINGS)}" if name == ALS else "it has none"
        raise InputError(f"settings: unknown key {unknown[0]!r} for {name}; {known}")
    return chosen


def als_config(
    settings: Mapping[str, Any],
    feedback: Feedback,
    *,
    rating_range: tuple[float, float],
    size: tuple[int, int, int],
) -> baselines.AlsConfig:
    """Tuned settings on other data, laid over by those that are given.

    Ratings are in the unit that the settings were tuned in, and a user's unobserved items together keep their
    weight relative to those that she has: otherwise the same number crushes models of large catalogues where people
    have few items.

    Args:
        settings: of ``als``, see ``fit_reference``.
        feedback: what a rating says.
        rating_range: public.
        size: users with training ratings, at least 1; items of the catalogue; training ratings. Private.

    Raises:
        InputError: a setting of the wrong kind, or out of its range.
    """
    explicit = feedback is Feedback.EXPLICIT
    tuned = baselines.default_als(feedback, rating_range=rating_range if explicit else None)
    if explicit:
        tuned = replace(tuned, unit=(rating_range[1] - rating_range[0]) / _TUNED_WIDTH)
    else:
        users, items, ratings = size
        weight = _TUNED_UNOBSERVED * ratings / users / items
        tuned = replace(tuned, unobserved_weight=min(max(weight, _LEAST_UNOBSERVED), 1.0))
    renamed = {"sweeps" if name == "rounds" else name: value for name, value in settings.items()}
    try:
        return msgspec.convert({**msgspec.to_builtins(tuned), **renamed}, baselines.AlsConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"settings of als: {error}") from error
