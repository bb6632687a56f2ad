"""Certificates, edits of them of one leaf each (taken out, of another type, another value, an unknown member), and
what Python says of each.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

from fedboard.common.certificate import Certificate, certify
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.commitments import planned

Path = tuple[str | int, ...]


def release(number: int, adjacency: Adjacency, **participation: Any) -> dict[str, Any]:
    made = GaussianRelease(
        name=f"round-{number}/linear",
        rows=20,
        width=10,
        layout="symmetric",
        grid_step=2.0**-8,
        l2_bound=1000,
        same_sign=bool(number % 2),
        adjacency=adjacency,
        noise_multiplier=3.0 + number,
        covers="made-up sums, é and ☃",
    )
    event = {**made.event(), **SecureNoise().describe()}
    return {**event, "participation": participation} if participation else event


def certificate(releases: Sequence[dict[str, Any]], commitment: Commitment) -> dict[str, Any]:
    made = certify(
        releases,
        commitment=commitment,
        trust=("Nobody is trusted with made-up numbers: 5 €.",),
        assumptions=(),
        dataset="made up",
        board_digest="0" * 64,
        rounds=RoundsMade(planned=5, made=2, lost=1),
    )
    return json.loads(json.dumps(made.to_dict()))


def sound() -> dict[str, dict[str, Any]]:
    """A certificate of each kind that the page recomputes."""
    added, replaced = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    usual = [release(n, added) for n in range(3)]
    exchanged = [release(n, replaced) for n in range(3)]
    cohorts = [release(n, added, kind="disjoint", cohort=n, cohorts=3, round="pass") for n in range(3)]
    fixed = [release(n, replaced, kind="fixed-size", size=9, round=f"round-{n}") for n in range(2)]
    budget = Commitment.of(Budget(epsilon=8.0, delta=1e-6, adjacency=added))
    return {
        "plan": certificate(usual, planned(usual)),
        "plan, some made": certificate(usual[:1], planned(usual)),
        "replace": certificate(exchanged, planned(exchanged, adjacency="replace")),
        "disjoint": certificate(cohorts, planned(cohorts)),
        "fixed size": certificate(fixed, planned(fixed, adjacency="replace")),
        "budget": certificate(usual, budget),
    }


def holds(plain: dict[str, Any]) -> bool:
    """What Python says."""
    try:
        return Certificate.from_dict(plain).holds
    except (FedboardError, ArithmeticError, TypeError, LookupError, AttributeError, ValueError):
        return False


def on_a_board(plain: dict[str, Any]) -> str:
    """Its text, as a board has it."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


_TYPES = (None, True, 0, 1.5, "7", [], {})
"""One of each type of JSON."""


def edits(plain: dict[str, Any]) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Each edit: its place, how, and the certificate. The digest fits; where no value changes, it also stays."""
    for path, value in _places(plain):
        if path == ("digest",):
            continue
        for how, change in _changes(value):
            made = _with(plain, path, change)
            if made == plain and repr(made) == repr(plain):
                continue
            yield path, how, made | {"digest": digest({k: v for k, v in made.items() if k != "digest"})}
            if how in ("taken out", "an unknown member", "a whole number", "a float"):
                yield path, f"{how}, the digest left", made


def _changes(value: Any) -> Iterator[tuple[str, Any]]:
    """How a value may be changed: (name, function of its parent and key)."""
    yield "taken out", lambda parent, key: parent.pop(key)
    if isinstance(value, dict):
        yield "an unknown member", lambda parent, key: parent[key].update(unknown=1)
    others = [(f"type {type(other).__name__}", other) for other in _TYPES if type(other) is not type(value)]
    if isinstance(value, bool):
        others += [("the other", not value)]
    elif isinstance(value, int | float):
        others += [("minus", -value), ("none", value * 0), ("huge", value * 10**30), ("one more", value + 1)]
        others += [("a little more", value * 1.001), ("a little less", value / 1.001)]
        others += [("a float", float(value))] if isinstance(value, int) else []
        others += [("a whole number", int(value))] if float(value).is_integer() else []
    elif isinstance(value, str):
        others += [("longer", f"{value}x"), ("empty", ""), ("blank", " ")]
    elif isinstance(value, list):
        others += [("longer", [*value, *(value[-1:] or ["more"])]), ("shorter", value[:-1])]
    for how, other in others:
        yield how, lambda parent, key, other=other: parent.__setitem__(key, copy.deepcopy(other))


def _with(plain: dict[str, Any], path: Path, change: Any) -> dict[str, Any]:
    made = copy.deepcopy(plain)
    parent: Any = made
    for step in path[:-1]:
        parent = parent[step]
    if path:
        change(parent, path[-1])
    else:
        made["unknown"] = 1
    return made


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value, leaf or not; of lists the first element, which stands for the others."""
    yield path, value
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, one in inner:
        yield from _places(one, (*path, key))
