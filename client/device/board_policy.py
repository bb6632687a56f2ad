"""Whether what a board promises holds, and is the promise that a person asks for."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedboard.client.device.policy import Policy
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.contribution import Request
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.budget import planned_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, is_amplified
from fedboard.common.wire.refusals import Refusal, RefusedError

MOST_RELEASES = 2_000
"""Of a run: what a device recomputes in seconds."""
_MOST_SAMPLED_ROUNDS = 64


def require_certified(board: Board, plan: Iterable[Iterable[Request]], policy: Policy) -> None:
    """Recompute a board's certificate and hold it against the run's own plan and a policy.

    A board of version 0 holds no data and needs no certificate. Numbers that are not finite are on no board.

    Args:
        board: from a server that need not be trusted.
        plan: all rounds of the run, as from ``Task.plan``.
        policy: says which adjacency and which noise.

    Raises:
        RefusedError: ``bad-board``, ``other-adjacency`` or ``not-private``.
    """
    if not all(np.isfinite(array).all() for array in board.arrays.values()):
        raise RefusedError(Refusal.BAD_BOARD)
    if board.version == 0:
        return
    planned = {request.name: request.release.noise_multiplier for asked in plan for request in asked}
    certificate = _verified(board)
    if certificate.claim.adjacency != policy.adjacency:
        raise RefusedError(Refusal.OTHER_ADJACENCY)
    if not (_keeps_to(certificate.releases, planned) and _claims_all_of(certificate, planned)):
        raise RefusedError(Refusal.BAD_BOARD)
    if not certificate.private and not policy.seeded_noise:
        raise RefusedError(Refusal.NOT_PRIVATE)


def _verified(board: Board) -> Certificate:
    try:
        certificate = Certificate.from_dict(dict(board.certificate or {}))
        affordable = _is_affordable(certificate.releases) and _is_short(certificate.commitment.plan or {})
        about_it = certificate.board_digest == board.digest and affordable
        holds = about_it and all(finding.passed for finding in certificate.verify())
    except (FedboardError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_BOARD) from None
    if not holds:
        raise RefusedError(Refusal.BAD_BOARD)
    return certificate


def _is_affordable(releases: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a device can recompute what they cost: of other noise and of sampling it takes loss distributions."""
    sampled = {event["participation"].get("round") for event in releases if is_amplified(event)}
    gaussian = all(event.get("mechanism") == "gaussian" for event in releases)
    return gaussian and len(releases) <= MOST_RELEASES and len(sampled) <= _MOST_SAMPLED_ROUNDS


def _is_short(plan: Mapping[str, Any]) -> bool:
    """The same of the plan that is claimed, which may state anything."""
    stated = [entry.get("participation") for entry in plan.values() if isinstance(entry, Mapping)]
    coins = [each for each in stated if isinstance(each, Mapping) and each.get("kind") == "poisson"]
    sampled = {str(each.get("round")) for each in coins}
    return len(plan) <= MOST_RELEASES and len(sampled) <= _MOST_SAMPLED_ROUNDS


def _claims_all_of(certificate: Certificate, planned: Mapping[str, float]) -> bool:
    """Whether a claim of a plan is of all that the board's configuration will ask for: never of a part."""
    terms = certificate.commitment
    if terms.plan is None:
        return True
    claimed = planned_events(terms.plan, Adjacency(terms.adjacency))
    least = {event["name"]: event["noise_multiplier"] for event in claimed}
    return all(least.get(name, math.inf) <= z * (1 + RELATIVE_TOLERANCE) for name, z in planned.items())


def _keeps_to(releases: Iterable[Mapping[str, Any]], planned: Mapping[str, float]) -> bool:
    """Whether every planned release that was made had at least the noise that the board's configuration states."""
    return all(
        event["noise_multiplier"] >= planned.get(event["name"], 0.0) * (1 - RELATIVE_TOLERANCE)
        for event in releases
    )
