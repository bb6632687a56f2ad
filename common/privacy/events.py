"""Events: the JSON records of releases that ledger and certificate hold, and the rules they must meet."""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedboard.common.errors import PrivacyError
from fedboard.common.normal_quantiles import quantile_of_logarithm
from fedboard.common.privacy.adjacency import Adjacency, l1_factor, sensitivity_factor

Event: TypeAlias = Mapping[str, Any]
"""One release as a JSON object; ``mechanism`` is "gaussian", "laplace" or "exponential". All fields are public."""

LAYOUTS = ("vector", "symmetric")
RELATIVE_TOLERANCE = 1e-9
"""A composed number may differ by this much, relatively, from what is recomputed."""
LIBRARY_TOLERANCE = 1e-7
"""The same where epsilon comes from loss distributions: their convolutions round differently elsewhere, by up
to 5e-8 at delta 1e-9.
"""
_PRODUCT_TOLERANCE = 1e-12
_KEPT_BITS = 20
_LARGEST_COUNT = (1 << 63) - 1
_SMALL_LOSS = 1e-3
_ROUNDING = 1e-12


class Rule(NamedTuple):
    """What one field of an event must be."""

    holds: Callable[[Any], bool]
    message: str
    schema: dict[str, Any]
    """The same as JSON Schema says it (draft 2020-12), for ``docs/certificate.schema.json``."""


def _one_of(names: Sequence[str]) -> Rule:
    return Rule(
        lambda value: value in names,
        f"must be one of {', '.join(names)}",
        {"enum": [str(name) for name in names]},
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_COUNT


def _is_positive(value: Any) -> bool:
    # Not "< inf": JSON and TOML have whole numbers that no float holds.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


_TEXT = Rule(_is_text, "must be a non-empty string", {"type": "string", "pattern": r"\S"})
_COUNT = Rule(_is_count, "must be an int > 0 and < 2^63", {"type": "integer", "exclusiveMinimum": 0})
_POSITIVE = Rule(_is_positive, "must be a finite number > 0", {"type": "number", "exclusiveMinimum": 0})
_COMMON: dict[str, Rule] = {
    "name": _TEXT,
    "covers": _TEXT,
    "adjacency": _one_of(tuple(Adjacency)),
    "noise_multiplier": _POSITIVE,
}
_OF_ANY = ("noise", "private", "seed", "participation", "shares")
STATED: Mapping[str, Mapping[str, Rule]] = {
    "gaussian": {
        **_COMMON,
        "rows": _COUNT,
        "width": _COUNT,
        "layout": _one_of(LAYOUTS),
        "grid_step": _POSITIVE,
        "l2_bound": _COUNT,
        "same_sign": Rule(
            lambda value: isinstance(value, bool), "must be true or false", {"type": "boolean"}
        ),
    },
    "laplace": {**_COMMON, "l1_sensitivity": _POSITIVE, "noise_scale": _POSITIVE},
    "exponential": {
        **_COMMON,
        "candidates": _COUNT,
        "score_sensitivity": _POSITIVE,
        "score_scale": _POSITIVE,
    },
}
LAPLACE_GRID: Mapping[str, Rule] = {"width": _COUNT, "grid_step": _POSITIVE, "l1_bound": _COUNT}
"""Of a Laplace release on the grid; a planned one has none of these."""
MEMBERS: Mapping[str, frozenset[str]] = {
    mechanism: frozenset(("mechanism", *STATED[mechanism], *derived, *_OF_ANY))
    for mechanism, derived in {
        "gaussian": ("l2_sensitivity", "noise_stddev", "release_shift"),
        "laplace": LAPLACE_GRID,
        "exponential": (),
    }.items()
}
"""All that a certificate may list of a release."""


_KIND = "kind"
PARTICIPATION: Mapping[str, Mapping[str, Rule]] = {
    "poisson": {
        "probability": Rule(
            lambda value: _is_positive(value) and value < 1,
            "must be a number in (0, 1)",
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        ),
        "round": _TEXT,
    },
    "fixed-size": {"size": _COUNT, "round": _TEXT},
    "shuffled-cohorts": {"cohorts": _COUNT, "round": _TEXT},
    "disjoint": {
        "cohort": Rule(
            lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
            "must be an int >= 0",
            {"type": "integer", "minimum": 0},
        ),
        "cohorts": _COUNT,
        "round": _TEXT,
    },
}


def symmetric_rank(width: int) -> int | None:
    """Return d where ``width = d (d + 1) / 2``, or None where there is no such d."""
    rank = (math.isqrt(8 * width + 1) - 1) // 2
    return rank if rank * (rank + 1) // 2 == width else None


def stated_problems(event: Event) -> list[str]:
    """Say what is missing or out of range in an event, without looking at numbers derived from others."""
    rules = STATED.get(str(event.get("mechanism")))
    if rules is None:
        return [f"mechanism must be one of {', '.join(STATED)}, got {event.get('mechanism')!r}"]
    if event["mechanism"] == "laplace" and not LAPLACE_GRID.keys().isdisjoint(event):
        rules = {**rules, **LAPLACE_GRID}
    problems = [
        f"{field} {rule.message}, got {event.get(field)!r}"
        for field, rule in rules.items()
        if not rule.holds(event.get(field))
    ]
    if not problems and event.get("layout") == "symmetric" and symmetric_rank(event["width"]) is None:
        problems.append(f"width of a symmetric release must be d (d + 1) / 2, got {event['width']}")
    return problems or participation_problems(event) or shares_problems(event)


def shares_problems(event: Event) -> list[str]:
    """Say what is wrong with an event's ``shares``; nothing where it has none: the server draws the noise.

    ``{"least": h}``: the noise is in the sum already, in shares of the clients, any h of which make up all of it.
    Gaussian noise only. Not together with ``poisson``: the server knows the coins, and noise in shares is there to
    protect against the server too.
    """
    if "shares" not in event:
        return []
    stated = event["shares"]
    if not isinstance(stated, Mapping) or set(stated) != {"least"} or not _is_count(stated["least"]):
        return [f"shares must be {{'least': an int > 0}} and nothing else, got {stated!r}"]
    problems = []
    if event["mechanism"] != "gaussian":
        problems.append(f"noise in shares is accounted for gaussian only, got {event['mechanism']}")
    if is_amplified(event):
        problems.append(
            "noise in shares is not accounted with participation poisson, whose coins the server knows; "
            "use full participation"
        )
    return problems


def participation_problems(event: Event) -> list[str]:
    """Say what is wrong with an event's ``participation``; nothing where it has none: all users take part.

    * ``{"kind": "poisson", "probability": q, "round": name}``: each user takes part by a secret coin of her
      own with 0 < q < 1, the same coin for all releases of the round. Amplifies; Gaussian noise and
      ``add-remove`` only.
    * ``{"kind": "fixed-size", "size": k, "round": name}`` and ``{"kind": "shuffled-cohorts", "cohorts": c,
      "round": name}``: stated, and accounted as full participation. Not under ``add-remove``: a user more takes the
      place of another, so that two users' contributions change and not one's.
    * ``{"kind": "disjoint", "cohort": number, "cohorts": c, "round": name}``: users are divided into c cohorts once
      and for all by what is public and does not depend on data; only this one takes part. Of the cohorts of one
      ``round``, the costliest is accounted (``grouping.most_exposed``). Gaussian noise only.
    """
    if "participation" not in event:
        return []
    stated = event["participation"]
    if not isinstance(stated, Mapping) or str(stated.get(_KIND)) not in PARTICIPATION:
        return [f"participation must state its kind, one of {', '.join(PARTICIPATION)}, got {stated!r}"]
    rules = PARTICIPATION[stated[_KIND]]
    problems = [
        f"participation {field} {rule.message}, got {stated.get(field)!r}"
        for field, rule in rules.items()
        if not rule.holds(stated.get(field))
    ]
    unknown = sorted(map(str, set(stated) - set(rules) - {_KIND}))
    if unknown:
        problems.append(f"participation has unknown fields: {', '.join(unknown)}")
    problems = problems or _displacement_problems(event)
    return problems or _disjoint_problems(event) or _amplification_problems(event)


def _displacement_problems(event: Event) -> list[str]:
    """Say where one user's presence decides whether others take part although only her own part is accounted."""
    kind = event["participation"][_KIND]
    if kind not in ("fixed-size", "shuffled-cohorts") or event["adjacency"] != Adjacency.ADD_REMOVE:
        return []
    return [
        f"participation {kind} is not accounted under adjacency add-remove, since a user more takes the place of "
        "another; use adjacency replace, or participation poisson or full"
    ]


def _disjoint_problems(event: Event) -> list[str]:
    if not is_disjoint(event):
        return []
    stated, problems = event["participation"], []
    if stated["cohort"] >= stated["cohorts"]:
        problems.append(f"participation cohort must be below {stated['cohorts']}, got {stated['cohort']}")
    if event["mechanism"] != "gaussian":
        problems.append(f"participation disjoint is accounted for gaussian only, got {event['mechanism']}")
    return problems


def _amplification_problems(event: Event) -> list[str]:
    """Say where sampling would be accounted although no theorem of ours covers it."""
    if not is_amplified(event):
        return []
    problems = []
    if event["adjacency"] != Adjacency.ADD_REMOVE:
        problems.append(
            "participation poisson is accounted under adjacency add-remove only, "
            f"got {event['adjacency']}; use add-remove or full participation"
        )
    if event["mechanism"] != "gaussian":
        problems.append(f"participation poisson is accounted for gaussian only, got {event['mechanism']}")
    return problems


def is_amplified(event: Event) -> bool:
    """Whether secret coins decide who takes part in a sound event, so that its curve is not its mechanism's."""
    stated = event.get("participation")
    return isinstance(stated, Mapping) and stated.get(_KIND) == "poisson"


def is_disjoint(event: Event) -> bool:
    """Whether only one of several fixed cohorts takes part in a sound event."""
    stated = event.get("participation")
    return isinstance(stated, Mapping) and stated.get(_KIND) == "disjoint"


def derived_problems(event: Event) -> list[str]:
    """Say which derived numbers of an event do not follow from its stated ones.

    Gaussian: ``l2_sensitivity = l2_bound * factor(adjacency)`` and ``noise_stddev = noise_multiplier *
    l2_sensitivity``. Laplace: ``noise_scale = noise_multiplier * l1_sensitivity``, and on the grid
    ``l1_sensitivity = l1_bound * factor(adjacency)``. Exponential: ``score_scale = 2 noise_multiplier *
    score_sensitivity``.
    """
    multiplier = float(event["noise_multiplier"])  # a product of whole numbers may be more than a float holds
    if event["mechanism"] == "laplace":
        problems = _mismatch(event, "noise_scale", multiplier * event["l1_sensitivity"])
        if "l1_bound" in event:
            factor = l1_factor(event["adjacency"])
            problems += _mismatch(event, "l1_sensitivity", event["l1_bound"] * factor)
        return problems
    if event["mechanism"] == "exponential":
        return _mismatch(event, "score_scale", 2.0 * multiplier * event["score_sensitivity"])
    factor = sensitivity_factor(event["adjacency"], same_sign=event["same_sign"])
    sensitivity = event["l2_bound"] * factor
    problems = _mismatch(event, "l2_sensitivity", sensitivity)
    problems += _mismatch(event, "noise_stddev", multiplier * sensitivity)
    shift = event.get("release_shift")
    if not problems and (type(shift) is not int or shift != release_shift(event["noise_stddev"])):
        problems.append(f"release_shift does not follow from noise_stddev, got {shift!r}")
    return problems


def release_shift(noise_stddev: float) -> int:
    """Low bits dropped after the noise: public, and far below the noise.

    What remains has cells of about 2^-20 noise deviations, coarse enough for 63 random bits to fill evenly.
    """
    return max(0, math.floor(math.log2(noise_stddev)) - _KEPT_BITS)


def _mismatch(event: Event, field: str, expected: float) -> list[str]:
    value = event.get(field)
    if _is_positive(value) and math.isclose(float(value or 0), expected, rel_tol=_PRODUCT_TOLERANCE):
        return []
    return [f"{field} must be {expected!r} (recomputed), got {value!r}"]


def event_problems(event: Event) -> list[str]:
    """Everything that is wrong with an event, one sentence each; empty for a sound one."""
    return stated_problems(event) or derived_problems(event)


def require_sound(event: Event) -> None:
    """Refuse an event that does not state a finite, positive amount of noise for a bounded contribution.

    Raises:
        PrivacyError: any field is missing, out of range or not consistent with the others.
    """
    problems = event_problems(event)
    if problems:
        raise PrivacyError(f"release {event.get('name')!r} is refused: {'; '.join(problems)}")


def event_mu(event: Event) -> float:
    """Gaussian differential privacy parameter of one event.

    Gaussian: exactly ``1 / z``. Laplace: an e-DP mechanism with ``e = 1 / z`` is mu-GDP for
    ``mu = 2 PhiInv(1 / (1 + exp(-e)))``: its trade-off curve lies above the two chords from the corners to
    the fixed point of G_mu, and G_mu is convex. An upper bound, so composing it by squares stays safe.
    Exponential: the same with e / 2. Its losses lie in a range of e, so its curve lies above chords to one corner
    (false alarms a, power p) with ``logit p - logit a <= e``. The mu of such a corner is the difference of
    ``PhiInv(1 / (1 + exp(-x)))`` over a stretch e of x, and largest where the stretch is centred, because that
    function is odd and concave beyond 0.

    Reference: Dong, Roth and Su (2022), Gaussian differential privacy, arXiv:1905.02383, sec. 2 and 3; Dong,
    Durfee and Rogers (2020), arXiv:1909.13830, sec. 3 (what a bounded range leaves).
    """
    loss = pure_epsilon(event)
    if event["mechanism"] == "gaussian":
        return loss
    if event["mechanism"] == "exponential":
        loss /= 2.0
    # For a small loss the quantile would cancel; the tangent at 0 bounds it, since mu is concave in the loss.
    tangent = loss * math.sqrt(math.pi / 2)
    mu = tangent if loss < _SMALL_LOSS else -2.0 * quantile_of_logarithm(-float(np.logaddexp(0.0, loss)))
    return mu * (1.0 + _ROUNDING)


def event_rho(event: Event) -> float:
    """Zero-concentrated differential privacy parameter: ``1 / (2 z^2)``, for e-DP ``e^2 / 2``, for a range e
    ``e^2 / 8`` (Cesar and Rogers 2021, arXiv:2007.04436, lemma 3.4).
    """
    loss = pure_epsilon(event)
    return loss * loss / (8.0 if event["mechanism"] == "exponential" else 2.0)


def is_pure(event: Event) -> bool:
    """Whether a sound event is differentially private with delta 0, so that its epsilon can simply be added."""
    return event["mechanism"] in ("laplace", "exponential")


def pure_epsilon(event: Event) -> float:
    """Epsilon of a pure event, ``1 / z``."""
    return 1.0 / float(event["noise_multiplier"])


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: one text per value, so that it can be hashed.

    Raises:
        PrivacyError: the value holds NaN or infinity, which JSON cannot say.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PrivacyError(f"a record must be plain JSON with finite numbers: {error}") from None


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
