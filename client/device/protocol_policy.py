"""Whether what a protocol relies on is what a person is willing to rely on. Public facts and her policy alone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedboard.client.device.policy import Policy
from fedboard.common.errors import InputError
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.registry import protocol_from
from fedboard.common.protocols.shared.properties import can_be_vouched
from fedboard.common.wire.refusals import Refusal, RefusedError

if TYPE_CHECKING:
    from fedboard.common.protocols.shared.sessions import Voucher


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
