"""The proxy as a child process: TLS, limits on connections, counts for the metrics."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from fedboard.server.fleet.door.proxy import FleetProxy, superlink_client, write_counts
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.lifeline import end_with_parent

_MOST_CONNECTIONS = 2000
_IDLE_SECONDS = 75


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
        server = uvicorn.Server(
            uvicorn.Config(
                proxy,
                http="h11",  # the other parser keeps headers without end
                host=network.listen,
                port=network.port,
                ssl_certfile=network.certificate,
                ssl_keyfile=network.key,
                lifespan="off",
                access_log=False,
                log_level="warning",
                server_header=False,
                date_header=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=2,
            )
        )
        counting = asyncio.create_task(write_counts(proxy, StateFolder.of(settings).counts / "proxy.json"))
        try:
            await server.serve()
        finally:
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await counting


def main() -> None:
    """Be the proxy, as long as the parent lives."""
    end_with_parent()
    asyncio.run(serve(read_settings(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()


__all__ = ["main", "proxy_command", "serve"]
