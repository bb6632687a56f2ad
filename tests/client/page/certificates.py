"""Certificates with one thing in them changed, and what Python says of each."""

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
_NOT_SHOWN = ("statements", "trust", "assumptions", "dataset", "software", "ledger_head")
"""What the page does not read, or shows as what somebody says."""


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


def changed(plain: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The certificate with one leaf changed, each in two ways, and its digest made to fit."""
    for path, leaf in _leaves(plain):
        again = path[0] in ("releases", "curve") and path[1] != 0  # as the first of them
        if again or path[0] in (*_NOT_SHOWN, "digest"):
            continue
        for other in _others(leaf):
            made = copy.deepcopy(plain)
            place: Any = made
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = other
            made["digest"] = digest({key: value for key, value in made.items() if key != "digest"})
            yield path, made


def holds(plain: dict[str, Any]) -> bool:
    """What Python says."""
    try:
        return Certificate.from_dict(plain).holds
    except (FedboardError, ArithmeticError, TypeError, LookupError, AttributeError, ValueError):
        return False


def on_a_board(plain: dict[str, Any]) -> str:
    """Its text, as a board has it."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    else:
        yield path, value


def _others(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, bool):
        return (not leaf, None)
    if isinstance(leaf, int):
        return (leaf + 1, -leaf - 1)
    if isinstance(leaf, float):
        return (leaf * 1.001, leaf / 1.001, -leaf)
    if isinstance(leaf, str):
        return (f"{leaf}x", "")
    return ("something", 7)
