"""The proxy as a child process: TLS, limits on connections, counts for the metrics."""

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from fedboard.common.wire.addresses import Address
from fedboard.server.fleet.door.proxy import FleetProxy, superlink_client, write_counts
from fedboard.server.fleet.plan.sections import NetworkSection
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.lifeline import end_with_parent
from fedboard.server.front.descriptors import room_for
from fedboard.server.front.front import INSIDE, Front, bound
from fedboard.server.front.limits import ConnectionLimits

_IDLE_SECONDS = 75
_OTHER_DESCRIPTORS = 1024
"""Connections to the SuperLink among them."""


def proxy_command(config: Path) -> list[str]:
    """How it is started; its standard input is the lifeline."""
    return [sys.executable, "-m", "fedboard.server.fleet.processes.proxy_process", str(config)]


async def serve(settings: FleetSettings) -> None:
    """Forward until the process is told to stop."""
    network = settings.network
    async with superlink_client(port=network.superlink_port, authority=network.authority) as upstream:
        proxy = FleetProxy(
            upstream,
            admitted=settings.public_keys,
            max_request_bytes=network.max_request_megabytes * 1_000_000,
            max_bytes_per_minute=network.max_megabytes_per_minute * 1_000_000,
        )
        limits = connection_limits(network)
        server = uvicorn.Server(
            uvicorn.Config(
                proxy,
                http="h11",  # the other parser keeps headers without end
                ssl_certfile=network.certificate,
                ssl_keyfile=network.key,
                lifespan="off",
                access_log=False,
                log_level="warning",
                server_header=False,
                date_header=False,
                limit_concurrency=limits.connections,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=2,
            )
        )
        front, listening = (
            Front(limits=limits),
            bound(Address(network.listen, network.port), name="the proxy"),
        )
        counts = StateFolder.of(settings).counts / "proxy.json"
        counting = asyncio.create_task(write_counts(proxy, counts, connections=front.counts))
        with socket.create_server((INSIDE, 0)) as inside:
            await front.start(listening, inside_port=int(inside.getsockname()[1]))
            try:
                await server.serve([inside])
            finally:
                await front.close()
                counting.cancel()
                with suppress(asyncio.CancelledError):
                    await counting


def connection_limits(network: NetworkSection) -> ConnectionLimits:
    """Of the port; this process's limit of file descriptors is raised to hold them.

    Raises:
        InputError: it may not open as many.
    """
    key = "network.connections"
    return ConnectionLimits(
        connections=room_for(
            network.connections, most=network.connections, others=_OTHER_DESCRIPTORS, key=key
        ),
        per_address=network.connections_per_address,
        idle_seconds=network.idle_seconds,
    )


def main() -> None:
    """Be the proxy, as long as the parent lives."""
    end_with_parent()
    asyncio.run(serve(read_settings(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
