"""Whether what a protocol relies on is what a person is willing to rely on. Public facts and her policy alone."""

from collections.abc import Mapping
from typing import Any

from fedboard.client.device.policy import Policy
from fedboard.common.errors import InputError
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.registry import protocol_from
from fedboard.common.wire.refusals import Refusal, RefusedError


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


def relied_on(
    name: str, parameters: Mapping[str, Any], policy: Policy, *, backend: str
) -> AggregationProtocol:
    """The protocol that a server states, where the policy relies on no less than it does.

    Raises:
        RefusedError: ``bad-protocol``, ``too-few``, ``not-private`` or ``other-helper``.
    """
    protocol = stated_protocol(name, parameters, backend=backend)
    stated = protocol.parameters
    if stated.get("survivors", policy.least_survivors) < policy.least_survivors:
        raise RefusedError(Refusal.TOO_FEW)
    if policy.most_honest is not None and stated.get("honest", 0) > policy.most_honest:
        raise RefusedError(Refusal.NOT_PRIVATE)
    return _pinned(protocol, policy) if name == "two-server" else protocol


def _pinned(protocol: AggregationProtocol, policy: Policy) -> AggregationProtocol:
    """Seals for the helper that the policy names, whatever the server says."""
    from fedboard.common.protocols.two_server.protocol import TwoServer

    if policy.helper is None or not isinstance(protocol, TwoServer):
        raise RefusedError(Refusal.OTHER_HELPER)
    return protocol.pinned(bytes.fromhex(policy.helper))
