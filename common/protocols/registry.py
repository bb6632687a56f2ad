"""The aggregation protocols by name."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fedboard.common.errors import InputError
from fedboard.common.protocol import AggregationProtocol


class ProtocolClass(Protocol):
    """How a protocol is made."""

    def sized(
        self, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy"
    ) -> AggregationProtocol:
        """For a fleet, whose public parameters it chooses; settings override them by name.

        Args:
            clients: how many there are.
            users: how many they host in all, at most.
            settings: by parameter name.
            backend: which kernels compute; never changes the sums.

        Raises:
            InputError: an unknown setting, a value out of range, or a fleet that this protocol cannot serve.
        """
        ...

    def from_parameters(
        self, parameters: Mapping[str, Any], *, backend: str = "numpy"
    ) -> AggregationProtocol:
        """From what a server states, which need not be sound.

        Raises:
            InputError: not the parameters of this protocol, or not safe ones.
        """
        ...


def _trusted() -> ProtocolClass:
    from fedboard.common.protocols.trusted.protocol import Trusted

    return Trusted


def _secure_sum() -> ProtocolClass:
    from fedboard.common.protocols.secure_sum.protocol import SecureSum

    return SecureSum


def _distributed_dp() -> ProtocolClass:
    from fedboard.common.protocols.distributed_dp.protocol import DistributedDp

    return DistributedDp


def _two_server() -> ProtocolClass:
    from fedboard.common.protocols.two_server.protocol import TwoServer

    return TwoServer


def _local() -> ProtocolClass:
    from fedboard.common.protocols.local.protocol import Local

    return Local


_CLASSES: Mapping[str, Callable[[], ProtocolClass]] = {
    "trusted": _trusted,
    "secure-sum": _secure_sum,
    "distributed-dp": _distributed_dp,
    "two-server": _two_server,
    "local": _local,
}
"""Each is imported when it is asked for, so that a client loads what it uses."""

PROTOCOL_NAMES = tuple(_CLASSES)


def protocol_class(name: str) -> ProtocolClass:
    """The protocol of this name.

    Raises:
        InputError: there is none.
    """
    if name not in _CLASSES:
        raise InputError(f"protocol must be one of {', '.join(PROTOCOL_NAMES)}, got {name!r}")
    return _CLASSES[name]()


def sized_protocol(
    name: str, *, clients: int, users: int, settings: Mapping[str, Any] | None = None, backend: str = "numpy"
) -> AggregationProtocol:
    """A protocol for a fleet; see ``ProtocolClass.sized``.

    Raises:
        InputError: no such protocol, an unknown setting, or a fleet that it cannot serve.
    """
    chosen = protocol_class(name)
    return chosen.sized(clients=clients, users=users, settings=settings or {}, backend=backend)


def protocol_from(name: str, parameters: Mapping[str, Any], *, backend: str = "numpy") -> AggregationProtocol:
    """The protocol that a server names, on a client; see ``ProtocolClass.from_parameters``.

    Raises:
        InputError: no such protocol, or parameters that are not sound.
    """
    return protocol_class(name).from_parameters(parameters, backend=backend)


__all__ = ["PROTOCOL_NAMES", "ProtocolClass", "protocol_class", "protocol_from", "sized_protocol"]
