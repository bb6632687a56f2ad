"""Whether what a server states is what a person is willing to rely on: by public facts and her policy alone."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedboard.client.participation.policy import Policy
from fedboard.common.algorithms.registry import BoardTask, algorithm_of, example_algorithm_of
from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.supervised.examples import CohortTask
from fedboard.common.board import Board, Catalogue
from fedboard.common.certificate import Certificate
from fedboard.common.contribution import Request
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.accounting.budget import planned_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, is_amplified
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.properties import can_be_vouched
from fedboard.common.protocols.registry import protocol_from
from fedboard.common.queries.statement import BRACKET, QuestionStatement, StatedQuestion, rebuilt_question

if TYPE_CHECKING:
    from fedboard.common.protocols.sessions import Voucher


def catalogue_digest(catalogue: Catalogue) -> str:
    """SHA-256 over the item ids in their order, hex. Public."""
    return _sha256(list(catalogue.item_ids))


def terms_of(board: Board) -> str:
    """SHA-256 over task, configuration (with every noise multiplier) and catalogue of a board, hex. Public.

    Features of the items are part of it where there are any: devices compute from them.
    """
    configuration: Mapping[str, Any] = dict(board.config)
    features = board.catalogue.features
    told = [] if features is None else [features.digest]
    return _sha256([board.task, configuration, catalogue_digest(board.catalogue), *told])


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


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


def stated_protocol(name: str, parameters: Mapping[str, Any], *, backend: str) -> AggregationProtocol:
    """The protocol that a server states.

    Args:
        name: from a server that need not be honest.
        parameters: from the same.
        backend: which kernels compute.

    Raises:
        RefusedError: unknown here, or not parameters that keep what the protocol promises.
    """
    try:
        return protocol_from(name, parameters, backend=backend)
    except (InputError, ArithmeticError, ImportError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_PROTOCOL) from None


_MASKED = frozenset({"secure-sum", "distributed-dp"})
"""Protocols whose clients can be vouched for, by their registered names."""


def relied_on(
    name: str,
    parameters: Mapping[str, Any],
    policy: Policy,
    *,
    backend: str,
    voucher: "Voucher | None" = None,
) -> AggregationProtocol:
    """The protocol that a server states, where the policy relies on no less than it does.

    Args:
        name: from a server that need not be honest.
        parameters: from the same.
        policy: hers.
        backend: which kernels compute.
        voucher: her device's identity, where the policy names an authority.

    Raises:
        RefusedError: ``bad-protocol``, ``too-few``, ``not-private``, ``other-helper`` or ``other-roster``.
    """
    protocol = stated_protocol(name, parameters, backend=backend)
    stated = protocol.parameters
    if stated.get("survivors", policy.least_survivors) < policy.least_survivors:
        raise RefusedError(Refusal.TOO_FEW)
    if policy.most_honest is not None and stated.get("honest", 0) > policy.most_honest:
        raise RefusedError(Refusal.NOT_PRIVATE)
    if name in _MASKED:
        return _vouched(protocol, policy, voucher)
    return _pinned(protocol, policy) if name == "two-server" else protocol


def _vouched(protocol: AggregationProtocol, policy: Policy, voucher: "Voucher | None") -> AggregationProtocol:
    """Among clients whom the authority of the policy vouches for, or where it names none, among any."""
    stated = protocol.parameters.get("vouched_by")
    if stated != policy.vouched_by or (stated is not None and voucher is None):
        raise RefusedError(Refusal.OTHER_ROSTER)
    if stated is not None and protocol.parameters["colluding"] < policy.least_colluding:
        raise RefusedError(Refusal.TOO_FEW)
    return protocol if voucher is None or not can_be_vouched(protocol) else protocol.vouched(voucher)


def _pinned(protocol: AggregationProtocol, policy: Policy) -> AggregationProtocol:
    """Seals for the helper that the policy names, whatever the server says."""
    from fedboard.common.protocols.two_server.protocol import TwoServer

    if policy.helper is None or not isinstance(protocol, TwoServer):
        raise RefusedError(Refusal.OTHER_HELPER)
    return protocol.pinned(bytes.fromhex(policy.helper))


class Limit(NamedTuple):
    """An epsilon, and what of all that she gave is held against it."""

    epsilon: float
    run: str | None = None
    """That of one run only."""
    questions: bool = False
    """That of questions only."""


def limits_of(policy: Policy, *, run: str, question: bool) -> list[Limit]:
    """What the answers to a run have to keep to.

    Args:
        policy: hers.
        run: its name.
        question: whether it is a question's.
    """
    limits = [
        Limit(policy.epsilon),
        Limit(min(policy.epsilon_per_run or policy.epsilon, policy.epsilon), run),
    ]
    if question and policy.epsilon_of_questions is not None:
        limits.append(Limit(min(policy.epsilon_of_questions, policy.epsilon), questions=True))
    return limits


def is_question(board: Board) -> bool:
    """Whether a board states a question; else it is a training's."""
    return board.task == StatedQuestion.NAME


def statement_of(board: Board) -> QuestionStatement:
    """What is asked, from a server that need not be honest.

    Raises:
        RefusedError: ``bad-board``; nothing that could be shown to her.
    """
    try:
        return rebuilt_question(board).statement
    except (FedboardError, ArithmeticError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_BOARD) from None


def require_task_allowed(board: Board, policy: Policy) -> None:
    """Hold what a board is about against the policy: a training by its task, a question by its title.

    Raises:
        RefusedError: ``not-allowed`` or ``bad-board``.
    """
    if is_question(board):
        title = statement_of(board).title
        allowed = any(fnmatchcase(title, pattern) for pattern in policy.questions)
    else:
        allowed = policy.tasks is None or board.task in policy.tasks
    if not allowed:
        raise RefusedError(Refusal.NOT_ALLOWED)


def array_rules(board: Board, task: BoardTask) -> tuple[ArrayRule, ...]:
    """The rules of all arrays that a device reads of a board of this version.

    Args:
        board: its version and its catalogue alone are looked at. Public.
        task: rebuilt from it.

    Raises:
        InputError: an algorithm that is not installed here.
    """
    if isinstance(task, StatedQuestion):
        last = len(task.statement.candidates) - 1
        left = ArrayRule(name=BRACKET, dtype=np.dtype(np.int64), shape=(2,), low=0, high=last)
        return (left,) if task.statement.bisected else ()
    if isinstance(task, CohortTask):
        return example_algorithm_of(task.name).array_rules(board, task.task.settings)
    return algorithm_of(task.name).array_rules(board, task.settings)


def has_sound_arrays(board: Board, task: BoardTask) -> bool:
    """Whether a board holds all that a device reads of it, each array as its rule says."""
    return all(rule.holds(board.arrays.get(rule.name)) for rule in array_rules(board, task))
