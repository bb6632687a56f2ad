"""The second server of a simulation: in this process, with noise that follows from the run's."""

from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.two_server.helper import LocalHelper
from fedboard.common.protocols.two_server.protocol import TwoServer


def with_second_server(protocol: AggregationProtocol, noise: NoiseSource) -> AggregationProtocol:
    """A protocol of two servers with a fresh second one; any other protocol as it is.

    Args:
        protocol: public.
        noise: of the run; the second server draws from streams of its own.
    """
    return protocol.helped_by(LocalHelper(noise)) if isinstance(protocol, TwoServer) else protocol


__all__ = ["with_second_server"]
